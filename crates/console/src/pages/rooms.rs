//! Rooms: where programs run now.

use askama::Template;
use axum::{Extension, extract::State};

use toolgate_runtime::sandbox::Pooled;

use super::{Frame, Page, render};
use crate::{Shared, caller::Caller, house, text::Text};

#[derive(Template)]
#[template(path = "rooms.html")]
struct RoomsPage {
    frame: Frame,
    rooms: Vec<Room>,
    /// Containers that were made ahead, in a sentence.
    ahead: Option<String>,
}

struct Room {
    id: Text,
    owner: Text,
    tier: Text,
    age: u64,
    pid: u32,
    spec: Text,
    workspace: Text,
    state: String,
}

pub(super) async fn page(State(shared): State<Shared>, Extension(caller): Extension<Caller>) -> Page {
    let room = |room: house::Room| Room {
        id: Text(room.id),
        owner: Text(room.owner),
        tier: Text(format!("{}: {}", room.backend, room.tier)),
        age: room.age_ms / 1_000,
        pid: room.pid,
        spec: Text(room.spec),
        workspace: Text(room.workspace.unwrap_or_default()),
        state: room.state.replace('_', " "),
    };
    let rooms = house::rooms(&shared).await?.into_iter().map(room).collect();
    let ahead = shared.runtime.pooled().map(|Pooled { waiting, hits, misses }| {
        format!("Containers made ahead: {waiting} wait; {hits} of {} that were wanted had been made.", hits + misses)
    });
    render(&RoomsPage { frame: Frame::new("Rooms", "rooms", &caller), rooms, ahead })
}
