//! A script over standard input and output: a message is a line.

use std::{
    io::{self, BufRead, Write},
    process,
    sync::Arc,
    thread,
};

use serde_json::{Value, json};

use super::{Asked, Last, Listener, Out, Page, Script, Stage};

/// Serves a script on standard input and output until the input ends.
pub fn serve(script: Script) -> io::Result<()> {
    let stage = Arc::new(Stage::new(script));
    let nobody = Asked { id: &Value::Null, method: "", params: &Value::Null, modern: false, count: 0 };
    stage.walk(&stage.script.start, &nobody, &mut Lines);
    for line in io::stdin().lock().split(b'\n') {
        let line = line?;
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            stage.note(json!({ "line": String::from_utf8_lossy(&line) }));
            continue;
        };
        stage.note(json!({ "message": message }));
        // In the old era whoever has been greeted hears of changes.
        if message["method"] == "notifications/initialized" {
            stage.state().listeners.push(Listener { out: Box::new(Lines), subscription: None });
        }
        let stage = stage.clone();
        thread::spawn(move || stage.take(&message, Box::new(Lines)));
    }
    if stage.script.stays {
        loop {
            thread::park();
        }
    }
    Ok(())
}

/// Standard output.
struct Lines;

impl Out for Lines {
    fn message(&mut self, message: &Value, _last: Last) {
        self.raw(format!("{message}\n").as_bytes());
    }

    fn raw(&mut self, bytes: &[u8]) {
        let mut stdout = io::stdout().lock();
        // A client that is gone does not read what is left.
        if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
            process::exit(0);
        }
    }

    fn page(&mut self, page: &Page) {
        self.raw(page.body.as_bytes());
    }

    fn crash(&mut self, status: i32) {
        process::exit(status);
    }
}
