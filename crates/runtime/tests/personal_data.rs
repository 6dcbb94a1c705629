//! Who may say that what tells of a person is taken out, and who may say that it is not.

use std::fs;

use toolgate_runtime::config::{Config, Sources};

#[test]
fn a_projects_file_switches_it_on_and_never_off() {
    let dir = tempfile::tempdir().unwrap();
    let load = |user: &str, project: &str| {
        let file = |name: &str, text: &str| {
            fs::write(dir.path().join(name), text).unwrap();
            Some(dir.path().join(name))
        };
        let sources = Sources {
            admin: None,
            explicit: None,
            user: file("user.yaml", user),
            project: file("toolgate.yaml", project),
            clients: Vec::new(),
            data_dir: dir.path().join("data"),
            cwd: dir.path().to_owned(),
            workspace: None,
        };
        let config = Config::load(&sources).map_err(|errors| errors[0].to_string())?;
        Ok::<_, String>((config.redact_personal_data.value, config.digest().unwrap()))
    };
    let (on, off) = ("redact_personal_data: true\n", "redact_personal_data: false\n");
    let (usual, digest) = load("", "").unwrap();
    assert!(!usual);
    for (user, project) in [(on, ""), ("", on), (on, on), (off, on)] {
        let (value, other) = load(user, project).unwrap();
        assert!(value && other != digest, "{user}{project}");
    }
    assert!(!load("", off).unwrap().0);
    assert!(load(on, off).unwrap_err().contains("redact_personal_data: false"));
    assert!(load("redact_personal_data: maybe\n", "").is_err());
}
