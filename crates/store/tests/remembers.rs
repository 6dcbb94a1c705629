//! What was written is there afterwards.

mod common;

use common::{end, intent, read};
use toolgate_store::{SqliteStore, Store};

#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path()).unwrap();
    store.begin(intent("a")).await.unwrap();
    store.end(end("a")).await.unwrap();
    store.end(read("b")).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let db = rusqlite::Connection::open(dir.path().join("audit.db")).unwrap();
    let mut st = db.prepare("select body from records").unwrap();
    let rows: Vec<Vec<u8>> = st.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
    for r in rows {
        println!("{}", String::from_utf8(r).unwrap());
    }
    for e in std::fs::read_dir(dir.path()).unwrap() {
        let e = e.unwrap();
        println!("{:?} {}", e.file_name(), e.metadata().unwrap().len());
    }
    println!("{}", std::fs::read_to_string(dir.path().join("audit.head")).unwrap());
}
