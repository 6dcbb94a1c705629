//! What a server that is bridged may ask of whoever calls its tools, and in which words.
//!
//! Nothing, unless the operator lists it for that server; and nothing that the client of the call has not said it can do.
//! What is asked is somebody else's word in front of a person or a model, so it says whose it is and is held to the shape
//! the protocol has for it: what has no place there is left out. A form that wants a secret is not shown, since whatever is
//! written into it goes through this program, the client and its log to the server; the protocol has an address to open for
//! that, and only one at the server's own host or at one it may talk to is passed on.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_contract::Fault;
use toolgate_guard::{
    clean,
    host_entry::HostEntry,
    names::skeleton,
    url::{Scheme, WebUrl},
};
use toolgate_runtime::{
    config::{MayAsk, Reached, Server as Settings},
    schema::admit_form,
    tools::Inquiry,
};

/// Bytes of a form or an address, with everything that is said about it.
const MOST_FORM: usize = 16 * 1024;
/// Fields of one form.
const MOST_FIELDS: usize = 50;
/// Letters of the name of a question, or of a field.
const LONGEST_NAME: usize = 64;
/// Messages of one question to a model, and what its answer may have.
const MOST_MESSAGES: usize = 100;
const MOST_TOKENS: u64 = 4_096;
/// Directories of one client.
const MOST_ROOTS: usize = 100;

/// The numbers JSON-RPC has for a method that is not there and for parameters that do not fit.
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// Is this something servers ask of clients?
pub(crate) fn is_question(method: &str) -> bool {
    kind(method).is_some()
}

fn kind(method: &str) -> Option<MayAsk> {
    match method {
        "elicitation/create" => Some(MayAsk::Elicitation),
        "sampling/createMessage" => Some(MayAsk::Sampling),
        "roots/list" => Some(MayAsk::Roots),
        _ => None,
    }
}

/// The error for whatever else a server wants of us.
pub(crate) fn unknown_method() -> Value {
    json!({ "code": METHOD_NOT_FOUND, "message": "this client does not offer that" })
}

/// What one server may ask.
#[derive(Debug, Clone)]
pub(crate) struct Leave {
    server: String,
    may_ask: BTreeSet<MayAsk>,
    own_host: Option<String>,
    hosts: Vec<HostEntry>,
}

/// Why something is not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    message: String,
    remedy: &'static str,
}

impl Leave {
    pub(crate) fn of(server: &str, settings: &Settings) -> Self {
        let (own_host, hosts) = match &settings.reached {
            Reached::Program(program) => {
                let entries = program.allowed_hosts.iter().filter_map(|entry| HostEntry::read(entry).ok());
                (None, entries.collect())
            }
            Reached::Address(address) => {
                (WebUrl::read(&address.url).ok().map(|url| url.host().to_string()), Vec::new())
            }
        };
        Self { server: server.to_owned(), may_ask: settings.may_ask.clone(), own_host, hosts }
    }

    /// It may ask nothing, whoever calls.
    pub(crate) fn is_none(&self) -> bool {
        self.may_ask.is_empty()
    }

    /// What a server is told when it connects, where it is told once: whatever some client may be able to do.
    pub(crate) fn capabilities(&self) -> Value {
        self.of_call(&json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} }))
    }

    /// What the client of a call can do, as far as this server may ask for it.
    pub(crate) fn of_call(&self, can: &Value) -> Value {
        let mut left = Map::new();
        for ask in &self.may_ask {
            let Some(Value::Object(said)) = can.get(ask.as_str()) else { continue };
            let capability = match ask {
                // One that names no kind has forms: the first revision knew nothing else.
                MayAsk::Elicitation if said.is_empty() => json!({ "form": {} }),
                MayAsk::Elicitation => {
                    let kinds = ["form", "url"].into_iter().filter(|kind| said.contains_key(*kind));
                    kinds.map(|kind| (kind.to_owned(), json!({}))).collect::<Map<_, _>>().into()
                }
                MayAsk::Sampling | MayAsk::Roots => json!({}),
            };
            left.insert(ask.as_str().to_owned(), capability);
        }
        left.into()
    }

    /// Of the capabilities a server says it needs, those there are words for here.
    pub(crate) fn needed(data: &Value) -> Map<String, Value> {
        let named = |ask: MayAsk| Some((ask.as_str().to_owned(), data["requiredCapabilities"].get(ask.as_str())?));
        let plain = |value: &Value| match value.as_object() {
            Some(kinds) => ["form", "url"].into_iter().filter(|kind| kinds.contains_key(*kind)).collect(),
            None => Vec::new(),
        };
        let empty =
            |kinds: Vec<&str>| kinds.into_iter().map(|kind| (kind.to_owned(), json!({}))).collect::<Map<_, _>>();
        MayAsk::ALL.into_iter().filter_map(named).map(|(name, value)| (name, empty(plain(value)).into())).collect()
    }

    /// The question as the client may be asked it, who can do this by [`Leave::of_call`].
    pub(crate) fn admit(&self, can: &Value, key: &str, method: &str, params: &Value) -> Result<Inquiry, Refusal> {
        let Some(ask) = kind(method) else { return Err(bad("it is none of those the protocol has")) };
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if key.is_empty() || key.len() > LONGEST_NAME || !key.chars().all(plain) {
            return Err(bad("its name is none"));
        }
        if !self.may_ask.contains(&ask) {
            let message = format!("server `{}` may not ask for {}", self.server, ask.as_str());
            return Err(Refusal {
                code: "may_not_ask",
                message,
                remedy: "Ask the operator to list it under `may_ask`.",
            });
        }
        let Some(can) = can.get(ask.as_str()) else { return Err(self.cannot(ask.as_str())) };
        let params = match ask {
            MayAsk::Elicitation => self.elicitation(can, params)?,
            MayAsk::Sampling => self.sampling(params)?,
            MayAsk::Roots => json!({}),
        };
        Ok(Inquiry { key: key.to_owned(), method: method.to_owned(), params })
    }

    fn cannot(&self, what: &str) -> Refusal {
        let message = format!("server `{}` asks for {what}, and this client has none", self.server);
        Refusal { code: "client_cannot", message, remedy: "Use a client that can, or another tool." }
    }

    fn elicitation(&self, can: &Value, params: &Value) -> Result<Value, Refusal> {
        if params.to_string().len() > MOST_FORM {
            return Err(bad("it is too long"));
        }
        let mode = params.get("mode").map_or(Some("form"), Value::as_str);
        let Some(message) = params["message"].as_str() else { return Err(bad("it says nothing")) };
        match mode {
            Some(mode @ ("form" | "url")) if can.get(mode).is_none() => Err(self.cannot(mode)),
            Some("form") => self.form(message, &params["requestedSchema"]),
            Some("url") => self.address(message, params),
            _ => Err(bad("it is of a kind that is not known here")),
        }
    }

    fn form(&self, message: &str, schema: &Value) -> Result<Value, Refusal> {
        let Some(fields) = schema["properties"].as_object().filter(|_| schema["type"] == "object") else {
            return Err(bad("it has no form"));
        };
        let is_plain = |name: &String| {
            !name.is_empty()
                && name.len() <= LONGEST_NAME
                && !name.chars().any(char::is_control)
                && clean::clean(name).0 == *name
        };
        let is_field = |field: &Value| match field["type"].as_str() {
            Some("string" | "number" | "integer" | "boolean") => true,
            Some("array") => field["items"].get("enum").is_some() || field["items"].get("anyOf").is_some(),
            _ => false,
        };
        if fields.len() > MOST_FIELDS || !fields.keys().all(is_plain) || !fields.values().all(is_field) {
            return Err(bad("its form has fields that are none"));
        }
        if wants_secret(message, fields) {
            let message = format!("server `{}` asks for a secret in a form", self.server);
            let remedy = "Give it the secret in its entry of the config, or have it ask by an address.";
            return Err(Refusal { code: "asks_for_secret", message, remedy });
        }
        // Whether it is a form at all is found out now: an answer is held against it.
        if let Err(why) = toolgate_runtime::schema::Schema::compile(schema) {
            return Err(bad(&format!("its form is none: {why}")));
        }
        let schema: Map<String, Value> = ["type", "properties", "required"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), schema.get(key)?.clone())))
            .collect();
        Ok(json!({ "mode": "form", "message": self.said(message), "requestedSchema": schema }))
    }

    fn address(&self, message: &str, params: &Value) -> Result<Value, Refusal> {
        let not_allowed = |why: &str| Refusal {
            code: "address_refused",
            message: format!("server `{}` asks to open an address that {why}", self.server),
            remedy: "Ask the operator to look at the server.",
        };
        let written = params["url"].as_str().unwrap_or_default();
        let url = WebUrl::read(written).map_err(|why| not_allowed(&format!("cannot be read: {why}")))?;
        if url.scheme() != Scheme::Https {
            return Err(not_allowed("is not `https`"));
        }
        let is_own = self.own_host.as_deref() == Some(&*url.host().to_string());
        let lists = |entry: &HostEntry| {
            let at_port = entry.port.is_none_or(|port| port == url.port());
            let host = url.host();
            at_port
                && (host.name().is_some_and(|name| entry.names(name))
                    || host.address().is_some_and(|ip| entry.lists(ip)))
        };
        if !is_own && !self.hosts.iter().any(lists) {
            return Err(not_allowed(&format!("is at `{}`, where it has no business", url.host())));
        }
        // As it was read, which has the host in ASCII: what looks like another name does not.
        let mut address = json!({ "mode": "url", "message": self.said(message), "url": url.as_str() });
        if let Some(id) = params["elicitationId"].as_str().filter(|id| id.len() <= 2 * LONGEST_NAME) {
            address["elicitationId"] = json!(id);
        }
        Ok(address)
    }

    fn sampling(&self, params: &Value) -> Result<Value, Refusal> {
        if ["tools", "toolChoice"].iter().any(|key| params.get(key).is_some_and(|value| !value.is_null())) {
            return Err(bad("it wants the model to have tools"));
        }
        let messages = params["messages"].as_array().filter(|list| (1..=MOST_MESSAGES).contains(&list.len()));
        let messages: Option<Vec<Value>> = messages.and_then(|list| list.iter().map(message).collect());
        let Some(messages) = messages else { return Err(bad("its messages are none")) };
        let tokens = params["maxTokens"].as_u64().unwrap_or(MOST_TOKENS).min(MOST_TOKENS);
        let about = match params["systemPrompt"].as_str() {
            Some(words) => self.said(words),
            None => format!("Server `{}` asks.", self.server),
        };
        let mut asked = json!({ "messages": messages, "maxTokens": tokens, "systemPrompt": about });
        for key in ["temperature", "stopSequences", "modelPreferences"] {
            if let Some(value) = params.get(key) {
                asked[key] = value.clone();
            }
        }
        Ok(asked)
    }

    /// Words, and whose they are.
    fn said(&self, words: &str) -> String {
        format!("Server `{}` asks: {words}", self.server)
    }
}

impl Refusal {
    /// As a server is told.
    pub(crate) fn error(&self) -> Value {
        let code = if matches!(self.code, "may_not_ask" | "client_cannot") { METHOD_NOT_FOUND } else { INVALID_PARAMS };
        json!({ "code": code, "message": self.message, "data": { "code": self.code } })
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Fault::refused(refusal.code, refusal.message, refusal.remedy)
    }
}

fn bad(why: &str) -> Refusal {
    let message = format!("the server's question cannot be asked: {why}");
    Refusal { code: "bad_question", message, remedy: "Report this to who runs the server." }
}

/// A message for a model, if it holds words, pictures and sounds only.
fn message(message: &Value) -> Option<Value> {
    let role = message["role"].as_str().filter(|role| matches!(*role, "user" | "assistant"))?;
    Some(json!({ "role": role, "content": content(&message["content"])? }))
}

fn content(content: &Value) -> Option<Value> {
    match content {
        Value::Array(blocks) => blocks.iter().map(block).collect::<Option<Vec<_>>>().map(Value::from),
        one => block(one),
    }
}

fn block(block: &Value) -> Option<Value> {
    let text = |key: &str| block[key].as_str();
    match text("type")? {
        "text" => Some(json!({ "type": "text", "text": text("text")? })),
        kind @ ("image" | "audio") => {
            Some(json!({ "type": kind, "data": text("data")?, "mimeType": text("mimeType")? }))
        }
        _ => None,
    }
}

/// What came back, if it is an answer to what was asked; with the defaults of what was left out of a form.
pub(crate) fn answer(asked: &Inquiry, answer: &Value) -> Result<Value, Fault> {
    let fits = match kind(&asked.method) {
        Some(MayAsk::Elicitation) => elicited(&asked.params, answer),
        Some(MayAsk::Sampling) => sampled(answer),
        Some(MayAsk::Roots) => rooted(answer),
        None => None,
    };
    fits.ok_or_else(|| {
        let message = "what came back is no answer to the tool's question";
        Fault::failed("not_answered", message, "Answer with what the question asks for.")
    })
}

fn elicited(asked: &Value, answer: &Value) -> Option<Value> {
    match (answer["action"].as_str()?, asked["mode"].as_str()) {
        ("accept", Some("form")) => {
            let content =
                answer.get("content").filter(|content| content.is_object()).cloned().unwrap_or_else(|| json!({}));
            let filled = admit_form(&asked["requestedSchema"], &content).ok()?;
            Some(json!({ "action": "accept", "content": filled }))
        }
        (action @ ("accept" | "decline" | "cancel"), _) => Some(json!({ "action": action })),
        _ => None,
    }
}

fn sampled(answer: &Value) -> Option<Value> {
    let mut sampled = message(answer)?;
    sampled["model"] = json!(answer["model"].as_str()?);
    if let Some(reason) = answer["stopReason"].as_str() {
        sampled["stopReason"] = json!(reason);
    }
    Some(sampled)
}

fn rooted(answer: &Value) -> Option<Value> {
    let root = |root: &Value| {
        let uri = root["uri"].as_str().filter(|uri| uri.starts_with("file://"))?;
        let mut plain = json!({ "uri": uri });
        if let Some(name) = root["name"].as_str() {
            plain["name"] = json!(name);
        }
        Some(plain)
    };
    let roots = answer["roots"].as_array().filter(|roots| roots.len() <= MOST_ROOTS)?;
    Some(json!({ "roots": roots.iter().map(root).collect::<Option<Vec<_>>>()? }))
}

/// What came of a question, for the record.
pub(crate) fn how(answer: &Value) -> String {
    answer["action"].as_str().unwrap_or("answered").to_owned()
}

/// Does a form have somebody write a secret into it? Only where something is written can one be: a choice is none.
fn wants_secret(message: &str, fields: &Map<String, Value>) -> bool {
    let is_written = |field: &Value| {
        matches!(field["type"].as_str(), Some("string" | "number" | "integer"))
            && field.get("enum").is_none()
            && field.get("oneOf").is_none()
    };
    let mut written = fields.iter().filter(|(_, field)| is_written(field)).peekable();
    if written.peek().is_none() {
        return false;
    }
    let speaks = |field: &Value, key: &str| field[key].as_str().is_some_and(speaks_of_secret);
    let wants = |(name, field): (&String, &Value)| {
        speaks_of_secret(name)
            || ["title", "description", "format"].iter().any(|key| speaks(field, key))
            || name.eq_ignore_ascii_case("pin")
    };
    speaks_of_secret(message) || written.any(wants)
}

/// Words that by themselves name a secret.
const WORDS: &[&str] = &[
    "pwd",
    "secret",
    "secrets",
    "token",
    "credential",
    "credentials",
    "cvv",
    "cvc",
    "cvv2",
    "ssn",
    "otp",
    "totp",
    "mnemonic",
    "senha",
    "parola",
];

/// What names one wherever it stands, with or without blanks in between.
const STEMS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "apikey",
    "apitoken",
    "accesskey",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "refreshtoken",
    "privatekey",
    "secretkey",
    "signingkey",
    "sshkey",
    "encryptionkey",
    "creditcard",
    "debitcard",
    "cardnumber",
    "securitycode",
    "verificationcode",
    "onetimecode",
    "authenticationcode",
    "recoverycode",
    "backupcode",
    "socialsecurity",
    "seedphrase",
    "recoveryphrase",
    "pincode",
    "pinnumber",
    "yourpin",
    "passwort",
    "kennwort",
    "contraseña",
    "contrasena",
    "motdepasse",
    "wachtwoord",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
];

fn speaks_of_secret(text: &str) -> bool {
    let words = words(text);
    let joined = skeleton(&words.concat());
    let stem = |stem: &&str| joined.contains(&skeleton(stem));
    let word = |word: &String| WORDS.iter().any(|known| skeleton(known) == skeleton(word));
    STEMS.iter().any(stem) || words.iter().any(word)
}

/// The words of a text, those of a name written `likeThis` or `like_this` too.
fn words(text: &str) -> Vec<String> {
    let seen = clean::clean(text).0;
    let (mut words, mut word, mut was_small) = (Vec::new(), String::new(), false);
    for c in seen.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_small) {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(may_ask: &[MayAsk]) -> Leave {
        Leave {
            server: "x".to_owned(),
            may_ask: may_ask.iter().copied().collect(),
            own_host: Some("mcp.example.com".to_owned()),
            hosts: vec![HostEntry::read("login.example.org:443").unwrap()],
        }
    }

    /// A question and what becomes of it: what is asked, or the code of why it is not.
    #[track_caller]
    fn check(method: &str, params: Value, expected: Result<Value, &str>) {
        let leave = leave(&MayAsk::ALL);
        let asked = leave.admit(&leave.capabilities(), "q", method, &params);
        assert_eq!(asked.map(|asked| asked.params).map_err(|refusal| refusal.code), expected, "{params}");
    }

    fn form(message: &str, properties: Value) -> Value {
        json!({ "message": message, "requestedSchema": { "type": "object", "properties": properties } })
    }

    #[test]
    fn a_form_says_who_asks_and_nothing_it_has_no_place_for() {
        let mut asked = form("Your name?", json!({ "name": { "type": "string", "title": "Name" } }));
        asked["_meta"] = json!({ "progressToken": 7 });
        asked["requestedSchema"]["$defs"] = json!({});
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string", "title": "Name" } } });
        let expected = json!({ "mode": "form", "message": "Server `x` asks: Your name?", "requestedSchema": schema });
        check("elicitation/create", asked, Ok(expected));
        for broken in [
            json!({}),
            json!({ "message": "m" }),
            form("m", json!({ "a": { "type": "object" } })),
            form("m", json!({ "a\u{200b}": { "type": "string" } })),
            form("m", json!({ "a": { "type": "string", "minLength": "x" } })),
            form(&"m".repeat(MOST_FORM), json!({})),
            json!({ "mode": "window", "message": "m" }),
        ] {
            check("elicitation/create", broken, Err("bad_question"));
        }
    }

    #[test]
    fn a_form_that_wants_a_secret_is_not_shown() {
        let text = json!({ "type": "string" });
        let wants = |message: &str, name: &str, field: Value| {
            check("elicitation/create", form(message, json!({ name: field })), Err("asks_for_secret"));
        };
        for name in [
            "password",
            "userPassword",
            "pass_word",
            "PASSWD",
            "api-key",
            "accessToken",
            "token",
            "p\u{430}ssw0rd",
            "PIN",
        ] {
            wants("Please.", name, text.clone());
        }
        wants("Please enter your GitHub password", "value", text.clone());
        wants("Please.", "value", json!({ "type": "string", "title": "API key" }));
        wants("Please.", "value", json!({ "type": "string", "description": "The number on your credit card" }));
        wants("Please.", "value", json!({ "type": "integer", "description": "the CVV on the back" }));
        wants("Please.", "value", json!({ "type": "string", "format": "password" }));
        wants("Bitte das Passwort eingeben", "wert", text.clone());
        let harmless = |message: &str, name: &str, field: Value| {
            let leave = leave(&MayAsk::ALL);
            let asked =
                leave.admit(&leave.capabilities(), "q", "elicitation/create", &form(message, json!({ name: field })));
            assert!(asked.is_ok(), "{message} {name}: {asked:?}");
        };
        harmless("Which branch?", "branch", text.clone());
        harmless("Your address?", "email", json!({ "type": "string", "format": "email" }));
        harmless("How many tokens may it use?", "max_tokens", json!({ "type": "integer" }));
        harmless("Rotate the API key now?", "confirm", json!({ "type": "boolean" }));
        harmless("Which secret store?", "store", json!({ "type": "string", "enum": ["vault", "file"] }));
        harmless("Compass heading, and who keeps the key of the city?", "heading", text);
    }

    #[test]
    fn an_address_is_one_of_the_servers_own_and_shown_as_it_is() {
        let open = |url: &str| json!({ "mode": "url", "message": "Sign in", "url": url, "elicitationId": "e1" });
        for url in ["https://mcp.example.com/login", "https://login.example.org/a?b=c"] {
            let expected =
                json!({ "mode": "url", "message": "Server `x` asks: Sign in", "url": url, "elicitationId": "e1" });
            check("elicitation/create", open(url), Ok(expected));
        }
        for url in [
            "http://mcp.example.com/login",
            "https://mcp.example.com.evil.example/",
            "https://mcp.ex\u{430}mple.com/",
            "https://user@mcp.example.com/",
            "https://login.example.org:8443/",
            "https://evil.example/?to=mcp.example.com",
            "javascript:alert(1)",
            "",
        ] {
            check("elicitation/create", open(url), Err("address_refused"));
        }
    }

    #[test]
    fn a_model_is_asked_with_words_pictures_and_sounds_and_within_bounds() {
        let text = json!({ "role": "user", "content": { "type": "text", "text": "hello", "x": 1 } });
        let asked = json!({
            "messages": [text], "maxTokens": 1_000_000, "includeContext": "allServers", "systemPrompt": "Be brief.", "temperature": 0.5,
        });
        let expected = json!({
            "messages": [{ "role": "user", "content": { "type": "text", "text": "hello" } }],
            "maxTokens": MOST_TOKENS, "systemPrompt": "Server `x` asks: Be brief.", "temperature": 0.5,
        });
        check("sampling/createMessage", asked, Ok(expected));
        for broken in [
            json!({}),
            json!({ "messages": [] }),
            json!({ "messages": [text], "tools": [{ "name": "shell" }] }),
            json!({ "messages": [{ "role": "system", "content": { "type": "text", "text": "x" } }] }),
            json!({ "messages": [{ "role": "user", "content": { "type": "tool_use", "id": "1" } }] }),
        ] {
            check("sampling/createMessage", broken, Err("bad_question"));
        }
        check("roots/list", json!({ "x": 1 }), Ok(json!({})));
        check("ping", json!({}), Err("bad_question"));
    }

    #[test]
    fn nothing_is_asked_that_is_not_listed_or_that_the_client_cannot_do() {
        let code = |may: &[MayAsk], can: Value, key: &str, params: Value| {
            let leave = leave(may);
            leave
                .admit(&leave.of_call(&can), key, "elicitation/create", &params)
                .map(|_| ())
                .map_err(|refusal| refusal.code)
        };
        let whole = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
        let question = form("m", json!({}));
        assert_eq!(code(&[MayAsk::Elicitation], whole.clone(), "q", question.clone()), Ok(()));
        assert_eq!(code(&[MayAsk::Sampling, MayAsk::Roots], whole.clone(), "q", question.clone()), Err("may_not_ask"));
        assert_eq!(code(&MayAsk::ALL, json!({ "sampling": {} }), "q", question.clone()), Err("client_cannot"));
        assert_eq!(
            code(&MayAsk::ALL, json!({ "elicitation": { "url": {} } }), "q", question.clone()),
            Err("client_cannot")
        );
        let url = json!({ "mode": "url", "message": "m", "url": "https://mcp.example.com/" });
        assert_eq!(code(&MayAsk::ALL, whole.clone(), "q", url), Err("client_cannot"));
        assert_eq!(code(&MayAsk::ALL, whole.clone(), "a b", question), Err("bad_question"));
        // What is told of the client is no more than that.
        let rich = json!({ "elicitation": { "form": { "x": 1 }, "url": {} }, "sampling": { "tools": {} }, "roots": { "listChanged": true }, "experimental": {} });
        assert_eq!(
            leave(&[MayAsk::Elicitation, MayAsk::Sampling]).of_call(&rich),
            json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {} })
        );
        assert_eq!(leave(&[]).of_call(&rich), json!({}));
        let needed = Leave::needed(
            &json!({ "requiredCapabilities": { "sampling": { "tools": {} }, "elicitation": { "url": 1 }, "evil\u{1b}": {} } }),
        );
        assert_eq!(Value::from(needed), json!({ "sampling": {}, "elicitation": { "url": {} } }));
    }

    #[test]
    fn only_an_answer_to_what_was_asked_goes_back() {
        let asked = |method: &str, params: Value| Inquiry { key: "q".into(), method: method.into(), params };
        let fields = json!({ "name": { "type": "string" }, "size": { "type": "integer", "default": 3 } });
        let schema = json!({ "type": "object", "properties": fields, "required": ["name"] });
        let form = asked("elicitation/create", json!({ "mode": "form", "requestedSchema": schema }));
        let check = |asked: &Inquiry, given: Value, expected: Option<Value>| {
            assert_eq!(answer(asked, &given).ok(), expected, "{given}");
        };
        let filled = json!({ "action": "accept", "content": { "name": "Ann", "size": 3 } });
        check(&form, json!({ "action": "accept", "content": { "name": "Ann" }, "x": 1 }), Some(filled));
        check(&form, json!({ "action": "decline", "content": { "name": 7 } }), Some(json!({ "action": "decline" })));
        for wrong in [
            json!(7),
            json!({}),
            json!({ "action": "maybe" }),
            json!({ "action": "accept" }),
            json!({ "action": "accept", "content": { "name": 7 } }),
        ] {
            check(&form, wrong, None);
        }
        let model = asked("sampling/createMessage", json!({}));
        let said = json!({ "role": "assistant", "content": { "type": "text", "text": "hi" }, "model": "m", "stopReason": "endTurn" });
        check(&model, said.clone(), Some(said));
        check(&model, json!({ "role": "assistant", "content": { "type": "tool_use" }, "model": "m" }), None);
        let roots = asked("roots/list", json!({}));
        let own = json!({ "roots": [{ "uri": "file:///work", "name": "work" }] });
        check(&roots, own.clone(), Some(own));
        check(&roots, json!({ "roots": [{ "uri": "https://example.com" }] }), None);
    }
}
