//! Files of the workspace.

mod closed;
#[cfg(test)]
mod desk;
pub(crate) mod fault;
mod glob;
mod kept;
pub(crate) mod path;
mod preview;
mod slot;
pub(crate) mod text;
mod walk;
pub(crate) mod workspace;

pub(crate) mod delete;
pub(crate) mod edit;
pub(crate) mod find;
pub(crate) mod grep;
pub(crate) mod ls;
pub(crate) mod read;
pub(crate) mod write;

pub use closed::Closed;
pub use workspace::{Protected, Workspace};

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolgate_contract::{Category, Effect, EffectKind, FaultKind, Files};

    use super::{desk::Desk, *};
    use crate::Tool;

    const ALL: [fn() -> Tool; 7] =
        [delete::tool, edit::tool, find::tool, grep::tool, ls::tool, read::tool, write::tool];

    #[test]
    fn declarations_say_what_the_tools_do() {
        for tool in ALL {
            let def = tool().def;
            assert_eq!(def.category, Category::FileSystem, "{}", def.name);
            let path = json!({ "path": "a", "content": "", "pattern": "p", "edits": [] });
            let wanted = def.input_schema["properties"].as_object().unwrap();
            let arguments = path.as_object().unwrap().clone().into_iter().filter(|(key, _)| wanted.contains_key(key));
            let effects = tool().reading.effects(&arguments.collect()).unwrap();
            let kind = match def.name.as_ref() {
                "delete" => EffectKind::FsDelete,
                "edit" | "write" => EffectKind::FsWrite,
                _ => EffectKind::FsRead,
            };
            assert_eq!(effects, [Effect::on(kind, "a")], "{}", def.name);
            assert_eq!(def.safety, kind.class(), "{}", def.name);
            let files = if kind == EffectKind::FsRead { Files::Read } else { Files::Write };
            assert_eq!(def.needs.files, files, "{}", def.name);
        }
    }

    #[test]
    fn a_handle_for_reading_does_not_write_and_cannot_be_widened() {
        let desk = Desk::with(&[("a", "1")]);
        let tool = read::tool();
        let cx = desk.cx(&tool, tool.def.caps);
        assert!(cx.workspace().unwrap().open_file("a").is_ok());
        let wide = cx.workspace().unwrap().with_access(Files::Write);
        let none = cx.workspace().unwrap().with_access(Files::None);
        for fault in [
            write::tool().work.here().unwrap()(&cx, json!({ "path": "a", "content": "2" })).unwrap_err(),
            wide.needs(Files::Write).unwrap_err(),
            none.open_file("a").err().unwrap(),
        ] {
            assert_eq!((fault.kind, fault.code.as_ref()), (FaultKind::Refused, "needs_not_declared"));
        }
        assert_eq!(desk.text("a"), "1");
    }

    #[test]
    fn a_call_that_was_stopped_does_nothing_more() {
        let desk = Desk::with(&[("a", "1"), ("d/b", "1")]);
        desk.stop.cancel();
        for (tool, arguments) in [
            (read::tool as fn() -> Tool, json!({ "path": "a" })),
            (ls::tool, json!({})),
            (find::tool, json!({ "pattern": "*" })),
            (grep::tool, json!({ "pattern": "1" })),
            (grep::tool, json!({ "pattern": "1", "path": "a" })),
            (write::tool, json!({ "path": "a", "content": "2" })),
            (edit::tool, json!({ "path": "a", "edits": [{ "old": "1", "new": "2" }] })),
            (delete::tool, json!({ "path": "a" })),
        ] {
            assert_eq!(desk.code(tool, arguments), "cancelled", "{}", tool().def.name);
        }
        assert_eq!(desk.text("a"), "1");
    }
}
