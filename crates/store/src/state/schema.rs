//! The tables of `state.db`.

/// The format of the database.
pub(super) const FORMAT: i64 = 1;

/// Says in the file's header whose file it is: "TgSt".
pub(super) const APPLICATION: i64 = 0x5467_5374;

/// The whole schema, by kind and name: what `sqlite_schema` must hold.
pub(super) const SCHEMA: [(&str, &str, &str); 15] = [
    (
        "table",
        "approvals",
        "CREATE TABLE approvals(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL,
    round INTEGER NOT NULL,
    agent TEXT NOT NULL,
    principal TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'denied', 'expired', 'used')),
    question TEXT NOT NULL,
    may_approve TEXT NOT NULL,
    timed_out TEXT,
    step INTEGER NOT NULL,
    escalated_ms INTEGER,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    decided_ms INTEGER,
    used_ms INTEGER,
    UNIQUE (digest, round)
) STRICT",
    ),
    ("index", "approvals_by_state", "CREATE INDEX approvals_by_state ON approvals(state)"),
    (
        "table",
        "votes",
        "CREATE TABLE votes(
    approval INTEGER NOT NULL,
    person TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer IN ('yes', 'no')),
    reason TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (approval, person)
) STRICT",
    ),
    (
        "table",
        "grants",
        "CREATE TABLE grants(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    terms TEXT NOT NULL,
    remaining INTEGER NOT NULL CHECK (remaining >= 0),
    until_ms INTEGER,
    created_ms INTEGER NOT NULL,
    revoked TEXT
) STRICT",
    ),
    ("index", "grants_by_agent", "CREATE INDEX grants_by_agent ON grants(agent)"),
    (
        "table",
        "once",
        "CREATE TABLE once(
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    call TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'unknown', 'resolved')),
    holder TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT,
    resolved TEXT,
    reserved_ms INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    PRIMARY KEY (agent, tool, key)
) STRICT",
    ),
    ("index", "once_by_state", "CREATE INDEX once_by_state ON once(state, changed_ms)"),
    (
        "table",
        "evidence",
        "CREATE TABLE evidence(
    seq INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT",
    ),
    ("index", "evidence_by_agent", "CREATE INDEX evidence_by_agent ON evidence(agent)"),
    (
        "trigger",
        "evidence_stays",
        "CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence \
         BEGIN SELECT RAISE(ABORT, 'evidence is never deleted'); END",
    ),
    (
        "trigger",
        "evidence_keeps",
        "CREATE TRIGGER evidence_keeps BEFORE UPDATE ON evidence \
         BEGIN SELECT RAISE(ABORT, 'evidence is never changed'); END",
    ),
    (
        "table",
        "spend",
        "CREATE TABLE spend(
    agent TEXT NOT NULL,
    over TEXT NOT NULL CHECK (over IN ('task', 'day', 'ever')),
    name TEXT NOT NULL,
    calls INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    units INTEGER NOT NULL,
    wall_ms INTEGER NOT NULL,
    PRIMARY KEY (agent, over, name)
) STRICT",
    ),
    (
        "table",
        "tokens",
        "CREATE TABLE tokens(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    hash BLOB NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    last_used_ms INTEGER,
    revoked_ms INTEGER
) STRICT",
    ),
    (
        "table",
        "login_codes",
        "CREATE TABLE login_codes(
    hash BLOB NOT NULL PRIMARY KEY,
    person TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    used_ms INTEGER
) STRICT",
    ),
    (
        "table",
        "latches",
        "CREATE TABLE latches(
    agent TEXT NOT NULL,
    kind TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    why TEXT NOT NULL,
    cleared TEXT,
    PRIMARY KEY (agent, kind)
) STRICT",
    ),
];
