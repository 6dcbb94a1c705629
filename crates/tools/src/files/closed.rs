//! Files that a rule of the operator's keeps tools from, also where a link or another spelling leads to them.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use toolgate_contract::{Fault, Files};
use toolgate_guard::path_pattern::{PathPattern, spellings};

use super::{fault::DENIED, text::brief};

/// A rule about files, as whoever opens them needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Which files, each with everything below it.
    pub paths: Vec<PathPattern>,
    /// They are not looked into.
    pub read: bool,
    /// They are not changed.
    pub write: bool,
    /// Whole paths that are open all the same, with everything below them: a person was asked about them.
    pub except: Vec<PathBuf>,
    /// Why, and where that is written.
    pub why: String,
}

impl Closed {
    /// Is this file, by its real path, kept from whoever wants to do this with it?
    fn keeps(&self, real: &Path, roots: &[PathBuf], access: Files) -> bool {
        let speaks = match access {
            Files::None => false,
            Files::Read => self.read,
            Files::Write => self.write,
        };
        speaks && !self.except.iter().any(|open| real.starts_with(open)) && {
            let spelt = spellings(real, roots);
            self.paths.iter().any(|pattern| spelt.iter().any(|path| pattern.matches(path.as_os_str().as_bytes())))
        }
    }
}

/// Fails when a rule keeps this file, by its real path, from whoever wants to do this with it.
pub(crate) fn check(
    closed: &[Closed],
    real: &Path,
    roots: &[PathBuf],
    access: Files,
    asked: &str,
) -> Result<(), Fault> {
    match closed.iter().find(|rule| rule.keeps(real, roots, access)) {
        None => Ok(()),
        Some(rule) => {
            let deed = if access == Files::Write { "written" } else { "read" };
            let message = format!("`{}` is not to be {deed}: {}", brief(asked), rule.why);
            Err(DENIED.refused(message, "Do without that file, or ask the operator."))
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look from outside")]
mod tests {
    use serde_json::{Value, json};

    use super::{
        super::{Protected, Workspace, delete, desk::Desk, edit, find, grep, ls, read, write},
        *,
    };
    use crate::Tool;

    /// A project with a workspace in it, and a directory elsewhere that is open for reading.
    struct Scene {
        project: Desk,
        elsewhere: Desk,
    }

    impl Scene {
        fn new() -> Self {
            let project = Desk::with(&[
                ("ws/a.txt", "mine"),
                ("ws/.env", "KEY=1"),
                ("ws/conf/prod/key", "KEY=2"),
                ("lib/b.txt", "shared"),
                ("lib/.env", "KEY=3"),
                (".git/config", ""),
                ("toolgate.yaml", ""),
            ]);
            Self { project, elsewhere: Desk::with(&[("c.txt", "data"), (".env", "KEY=4")]) }
        }

        fn handle(&self, path: &std::path::Path) -> Workspace {
            let protected = Protected { names: vec!["toolgate.yaml".into()], hidden: Vec::new() };
            Workspace::open(path, protected).unwrap()
        }

        fn workspace(&self) -> Workspace {
            self.handle(&self.project.at("ws"))
        }

        /// With the project and the other directory open.
        fn wide(&self) -> Workspace {
            let workspace = self.workspace().beside(&self.handle(&self.project.at("")), Files::Write);
            workspace.beside(&self.handle(&self.elsewhere.at("")), Files::Read)
        }

        fn call(&self, workspace: &Workspace, tool: fn() -> Tool, arguments: Value) -> Result<Value, String> {
            let tool = tool();
            let ran = tool.work.here().unwrap()(&self.project.cx_in(workspace, &tool, tool.def.caps), arguments);
            ran.map(|output| output.structured).map_err(|fault| {
                assert!(tool.def.failures.iter().any(|mode| mode.code == fault.code), "{fault}");
                fault.code.into_owned()
            })
        }
    }

    fn closed(paths: &[&str], except: Vec<PathBuf>) -> Vec<Closed> {
        let paths = paths.iter().map(|path| PathPattern::parse(path).unwrap()).collect();
        vec![Closed { paths, read: true, write: true, except, why: "credentials (toolgate.yaml:3)".into() }]
    }

    #[test]
    fn what_is_open_besides_the_workspace_is_reached_and_named_by_its_whole_path() {
        let scene = Scene::new();
        let (narrow, wide) = (scene.workspace(), scene.wide());
        let whole = |desk: &Desk, path: &str| desk.at("").canonicalize().unwrap().join(path).display().to_string();
        let (shared, data) = (whole(&scene.project, "lib/b.txt"), whole(&scene.elsewhere, "c.txt"));
        for (path, named) in [
            ("a.txt", "a.txt"),
            ("../ws/a.txt", "a.txt"),
            ("../lib/b.txt", &shared),
            (&shared, &shared),
            (&data, &data),
        ] {
            assert_eq!(scene.call(&wide, read::tool, json!({ "path": path })).unwrap()["path"], named);
            let narrow = scene.call(&narrow, read::tool, json!({ "path": path }));
            assert_eq!(narrow.is_ok(), path == "a.txt", "{path} {narrow:?}");
            assert!(narrow.is_ok() || narrow == Err("path_outside_workspace".into()));
        }
        for path in ["../..", "/etc/passwd", &format!("{data}/../../x")] {
            assert_eq!(scene.call(&wide, ls::tool, json!({ "path": path })), Err("path_outside_workspace".into()));
        }
        let found = scene.call(&wide, grep::tool, json!({ "pattern": "shared", "path": ".." })).unwrap();
        assert_eq!(found["matches"][0]["path"], shared, "{found}");
        let found = scene.call(&wide, find::tool, json!({ "pattern": "*.txt", "path": ".." })).unwrap();
        assert_eq!(found["paths"].as_array().unwrap().len(), 2, "{found}");
    }

    #[test]
    fn a_directory_is_written_only_where_it_is_open_for_that_and_protected_names_hold_in_all_of_them() {
        let scene = Scene::new();
        let wide = scene.wide();
        let data = scene.elsewhere.at("").canonicalize().unwrap().join("new").display().to_string();
        let put = |path: &str| {
            scene.call(&wide, write::tool, json!({ "path": path, "content": "x" })).map(|done| done["path"].clone())
        };
        assert_eq!(put(&data), Err("read_only_directory".into()));
        assert!(put("../lib/new").is_ok() && put("sub").is_ok());
        for path in ["../.git/config", "../toolgate.yaml", "toolgate.yaml", "../ws/.GIT/x"] {
            assert_eq!(put(path), Err("protected_path".into()), "{path}");
        }
        assert_eq!(scene.project.text("lib/new"), "x");
        assert!(!scene.elsewhere.at("new").exists());
    }

    #[test]
    fn a_closed_file_is_closed_however_it_is_reached_and_whichever_tool_reaches() {
        let scene = Scene::new();
        scene.project.link("ws/innocent", ".env");
        scene.project.link("ws/up", "../lib");
        scene.project.link("ws/conf/named", "../a.txt");
        let workspace = scene.wide().closing(closed(&[".env", "conf/prod/**", "named"], Vec::new()));
        let denied = Err("file_denied".to_owned());
        for path in
            [".env", "innocent", "conf/../.env", "../ws/.env", "../lib/.env", "up/.env", "conf/prod/key", "conf/named"]
        {
            assert_eq!(scene.call(&workspace, read::tool, json!({ "path": path })), denied, "{path}");
        }
        for (tool, arguments) in [
            (ls::tool as fn() -> Tool, json!({ "path": "conf/prod" })),
            (find::tool, json!({ "pattern": "*", "path": "conf/prod" })),
            (grep::tool, json!({ "pattern": "K", "path": ".env" })),
            (write::tool, json!({ "path": ".env", "content": "" })),
            (write::tool, json!({ "path": "conf/prod/new/x", "content": "", "create_dirs": true })),
            (edit::tool, json!({ "path": ".env", "edits": [{ "old": "1", "new": "2" }] })),
            (delete::tool, json!({ "path": "up/.env" })),
        ] {
            assert_eq!(scene.call(&workspace, tool, arguments.clone()), denied, "{} {arguments}", tool().def.name);
        }
        let found = scene.call(&workspace, grep::tool, json!({ "pattern": "KEY", "path": ".." })).unwrap();
        assert_eq!(found["matches"], json!([]), "{found}");
        let names = scene.call(&workspace, find::tool, json!({ "pattern": "key" })).unwrap();
        assert_eq!(names["paths"], json!([]));
        assert!(!scene.project.at("ws/conf/prod/new").exists());
        assert!(scene.call(&workspace, read::tool, json!({ "path": "a.txt" })).is_ok());
    }

    #[test]
    fn what_a_person_was_asked_about_is_open_and_what_leads_there_is_not() {
        let scene = Scene::new();
        scene.project.link("ws/innocent", ".env");
        let asked = scene.project.at("ws/.env").canonicalize().unwrap();
        let workspace = scene.wide().closing(closed(&[".env"], vec![asked]));
        assert!(scene.call(&workspace, read::tool, json!({ "path": ".env" })).is_ok());
        assert_eq!(scene.call(&workspace, read::tool, json!({ "path": "../lib/.env" })), Err("file_denied".into()));
    }

    #[test]
    fn a_rule_about_reading_leaves_writing_alone_and_the_other_way_round() {
        let scene = Scene::new();
        let rule = |read, write| {
            closed(&["a.txt"], Vec::new()).into_iter().map(|rule| Closed { read, write, ..rule }).collect()
        };
        let (unread, unwritten) =
            (scene.workspace().closing(rule(true, false)), scene.workspace().closing(rule(false, true)));
        let (reading, writing) = (json!({ "path": "a.txt" }), json!({ "path": "a.txt", "content": "x" }));
        let edits = json!({ "path": "a.txt", "edits": [{ "old": "x", "new": "y" }] });
        assert_eq!(scene.call(&unwritten, write::tool, writing.clone()), Err("file_denied".into()));
        assert!(scene.call(&unwritten, read::tool, reading.clone()).is_ok());
        assert!(scene.call(&unread, write::tool, writing).is_ok());
        assert_eq!(scene.call(&unread, read::tool, reading), Err("file_denied".into()));
        // Whoever edits a file learns what was in it.
        assert_eq!(scene.call(&unread, edit::tool, edits), Err("file_denied".into()));
    }
}
