//! The whole catalog as reviewed: a tool that changes what it is, or what it may do, shows up here as a changed line.

use toolgate_contract::digest;
use toolgate_runtime::built_in_tools;

#[test]
fn the_catalog_is_as_reviewed() {
    let mut tools = built_in_tools();
    tools.sort_by(|a, b| a.def.name.cmp(&b.def.name));
    let mut page = String::new();
    for tool in tools {
        let def = &tool.def;
        let needs = serde_json::to_string(&def.needs).unwrap();
        let input = digest(&def.input_schema).unwrap().hex();
        let output = digest(&def.output_schema).unwrap().hex();
        page += &format!("{:<20} {:<12} {:<12} {}\n", def.name, def.category, def.action, def.safety);
        page += &format!("  needs {needs}\n");
        page += &format!("  timeout {:?}, {} at once, {:?}\n", def.timeout, def.concurrency, def.caps);
        page += &format!("  input {}  output {}\n", &input[..16], &output[..16]);
    }
    insta::assert_snapshot!(page);
}
