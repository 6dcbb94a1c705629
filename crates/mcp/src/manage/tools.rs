//! Every tool there is, by name.

use std::sync::LazyLock;

use super::{
    agents, approvals, audit, budgets, catalog, connections, effects, meta, policy, rooms, servers, tasks, tool::Tool,
    trust,
};

pub(crate) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let domains = [
        agents::tools(),
        approvals::tools(),
        audit::tools(),
        budgets::tools(),
        catalog::tools(),
        connections::tools(),
        effects::tools(),
        meta::tools(),
        policy::tools(),
        rooms::tools(),
        servers::tools(),
        tasks::tools(),
        trust::tools(),
    ];
    let mut tools: Vec<Tool> = domains.into_iter().flatten().collect();
    tools.sort_by(|a, b| a.def.name.cmp(&b.def.name));
    tools
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use toolgate_contract::Scope;
    use toolgate_guard::{definition, injection};
    use toolgate_runtime::schema::Schema;

    use super::*;
    use crate::manage::tool::Kind;

    /// Every domain there is.
    const DOMAINS: [&str; 15] = [
        "agents",
        "analytics",
        "approvals",
        "audit",
        "budgets",
        "catalog",
        "connections",
        "effects",
        "memory",
        "meta",
        "policy",
        "rooms",
        "servers",
        "tasks",
        "trust",
    ];

    #[test]
    fn every_tool_is_declared_in_full() {
        let mut names = BTreeSet::new();
        for tool in &*TOOLS {
            let name = &*tool.def.name;
            assert!(names.insert(name), "{name} is there twice");
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.len() <= 40 && name.chars().all(plain) && name.contains('_'), "{name}");
            assert!(tool.def.description.ends_with('.'), "{name}: {}", tool.def.description);
            let schema = &tool.def.input_schema;
            Schema::compile(schema).unwrap();
            assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)), "{name}");
            for (field, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{name}: `{field}` is not described: {property}");
            }
        }
        let domains: BTreeSet<&str> = TOOLS.iter().map(Tool::domain).collect();
        assert_eq!(domains, DOMAINS.into());
    }

    #[test]
    fn what_changes_something_says_why_and_what_gives_more_says_who() {
        for tool in &*TOOLS {
            let required = |field: &str| {
                let list = tool.def.input_schema["required"].as_array();
                list.is_some_and(|list| list.iter().any(|name| name == field))
            };
            let expected = match tool.kind {
                Kind::Read => (false, false, false),
                Kind::Write => (true, false, false),
                Kind::Admin => (true, true, true),
            };
            assert_eq!((required("reason"), required("actor"), required("confirm")), expected, "{}", tool.def.name);
            assert!(tool.kind == Kind::Read || tool.scope != Scope::Read, "{} wants no right", tool.def.name);
        }
    }

    #[test]
    fn no_definition_looks_like_an_order_to_our_own_guard() {
        for tool in &*TOOLS {
            let page = json!({
                "name": tool.def.name, "description": tool.def.description, "inputSchema": tool.def.input_schema,
            });
            assert_eq!(definition::scan(&page), [], "{}", tool.def.name);
            let judged = injection::judge(&tool.def.description);
            assert_eq!(judged.verdict, injection::Verdict::Clean, "{}", tool.def.name);
        }
    }

    #[test]
    fn all_of_them_together_are_a_small_part_of_a_context() {
        let page: Vec<Value> =
            TOOLS.iter().map(|tool| json!([tool.def.name, tool.def.description, tool.def.input_schema])).collect();
        let bytes = json!(page).to_string().len();
        assert!(bytes < 40_000, "{bytes} bytes, which is about a quarter as many tokens");
    }
}
