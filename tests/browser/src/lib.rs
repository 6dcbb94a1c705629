//! A real browser, driven over WebDriver, for walks through the console.
//!
//! A package of its own, so that no other test waits for it. `cargo xtask test` installs Chromium, its driver and axe, and
//! names them in the environment; without them the walks say that they were skipped.

#![expect(clippy::expect_used, clippy::panic, reason = "only tests link this, and a broken stage fails the test")]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the browser may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// What WebDriver calls the name of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A window of a headless Chromium of its own.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    axe: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; none where there is no driver or no axe, which is said.
    pub fn start() -> Option<Self> {
        let (Some(driver), Some(axe)) = (env::var_os("TOOLGATE_CHROMEDRIVER"), env::var_os("TOOLGATE_AXE")) else {
            toolgate_tests::skipped("TOOLGATE_CHROMEDRIVER and TOOLGATE_AXE are not set; cargo xtask test sets them");
            return None;
        };
        let profile = TempDir::with_prefix("toolgate-browser-").expect("a directory");
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .env("HOME", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the driver starts");
        let port = port_of(&mut driver);
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            axe: fs::read_to_string(axe).expect("axe can be read"),
            _profile: profile,
        };
        let data = browser._profile.path().join("profile");
        let mut args = vec![
            "--headless=new".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--no-first-run".to_owned(),
            "--window-size=1200,900".to_owned(),
            format!("--user-data-dir={}", data.display()),
        ];
        // Chromium does not make its own sandbox as root; it sees pages of ours only.
        if rustix::process::geteuid().is_root() {
            args.push("--no-sandbox".to_owned());
        }
        let made = browser.ask(
            "POST",
            "/session",
            &json!({ "capabilities": { "alwaysMatch": {
                "browserName": "chrome",
                "goog:chromeOptions": { "args": args },
                "goog:loggingPrefs": { "browser": "ALL" },
            } } }),
        );
        browser.session = made["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {made}")).to_owned();
        Some(browser)
    }

    /// Goes to an address.
    pub fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// Goes on in another tab.
    pub fn another_tab(&self) {
        let made = self.command("POST", "/window/new", &json!({ "type": "tab" }));
        self.command("POST", "/window", &json!({ "handle": made["handle"] }));
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.command("GET", "/url", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Presses what this selector names.
    pub fn press(&self, selector: &str) {
        let element = self.wait_for(selector);
        self.command("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Puts the pointer on what this selector names.
    pub fn point(&self, selector: &str) {
        let element = json!({ ELEMENT: self.wait_for(selector) });
        let there = json!({ "type": "pointerMove", "origin": element, "x": 0, "y": 0 });
        let hand = json!({ "type": "pointer", "id": "hand", "actions": [there] });
        self.command("POST", "/actions", &json!({ "actions": [hand] }));
    }

    /// Types keys to whatever has the focus.
    pub fn keys(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })])
            .collect();
        self.command("POST", "/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": strokes }] }));
    }

    /// Waits until the page has what this selector names.
    pub fn wait_for(&self, selector: &str) -> String {
        let find = json!({ "using": "css selector", "value": selector });
        self.until(&format!("`{selector}` is on the page"), || {
            self.try_command("POST", "/element", &find)?[ELEMENT].as_str().map(str::to_owned)
        })
    }

    /// Waits until the page says this.
    pub fn wait_for_text(&self, text: &str) {
        self.until(&format!("the page says `{text}`"), || self.text().contains(text).then_some(()));
    }

    /// All a person reads on the page.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script in the page and gives what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The window's size, and light or dark.
    pub fn look(&self, width: u32, height: u32, scheme: &str) {
        let cdp = |cmd: &str, params: Value| {
            self.command("POST", "/goog/cdp/execute", &json!({ "cmd": cmd, "params": params }));
        };
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        cdp("Emulation.setDeviceMetricsOverride", size);
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        cdp("Emulation.setEmulatedMedia", feature);
    }

    /// What axe finds on the page that is serious or worse.
    pub fn barriers(&self) -> Vec<String> {
        self.run(&self.axe);
        let script = "const done = arguments[arguments.length - 1];\
            axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations), (e) => done(String(e)));";
        let found = self.command("POST", "/execute/async", &json!({ "script": script, "args": [] }));
        let found = found.as_array().unwrap_or_else(|| panic!("axe did not run: {found}"));
        let serious = found.iter().filter(|one| one["impact"] == "serious" || one["impact"] == "critical");
        serious.map(|one| format!("{}: {} at {}", one["id"], one["help"], one["nodes"][0]["html"])).collect()
    }

    /// Does the page need to be moved sideways?
    pub fn is_too_wide(&self) -> bool {
        self.run("return document.scrollingElement.scrollWidth > window.innerWidth + 1").as_bool().unwrap_or(true)
    }

    /// What the browser complained about since the last time it was asked.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.command("POST", "/se/log", &json!({ "type": "browser" }));
        let lines = log.as_array().into_iter().flatten().filter(|line| line["level"] == "SEVERE");
        lines.map(|line| line["message"].to_string()).collect()
    }

    /// Keeps a picture of the page where `TOOLGATE_SCREENSHOTS` says.
    pub fn picture(&self, name: &str) {
        let shot = self.command("GET", "/screenshot", &Value::Null);
        let png = STANDARD.decode(shot.as_str().unwrap_or_default()).expect("a picture");
        if let Some(dir) = env::var_os("TOOLGATE_SCREENSHOTS").map(PathBuf::from) {
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join(format!("{name}.png")), png).expect("a file");
        }
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(started.elapsed() < PATIENCE, "not in time: {what}\n{}\n{}", self.address(), self.text());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    fn try_command(&self, method: &str, path: &str, body: &Value) -> Option<Value> {
        let said = self.send(method, &format!("/session/{}{path}", self.session), body);
        said["value"]["error"].is_null().then(|| said["value"].clone())
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let said = self.send(method, path, body);
        assert!(said["value"]["error"].is_null(), "{method} {path}: {said}");
        said["value"].clone()
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the driver reads");
        // It keeps the connection, whatever it is told, so the length says where the answer ends.
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).expect("the driver answers");
            if let Some((_, said)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                length = said.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).expect("the driver answers");
        serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }
}

/// The driver says which port it took.
fn port_of(driver: &mut Child) -> u16 {
    let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
    let line = lines.by_ref().map_while(Result::ok).find(|line| line.contains("successfully on port "));
    let port = line.as_deref().and_then(|line| line.rsplit("on port ").next()).map(|port| port.trim_end_matches('.'));
    let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port in {line:?}"));
    // Whoever does not read what it says would stop it in the end.
    thread::spawn(move || lines.for_each(drop));
    port
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; a driver that is killed would leave it behind. Also where a test failed, so
        // nothing here may fail again.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let head =
                format!("DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", self.session);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.read(&mut [0; 1]));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
