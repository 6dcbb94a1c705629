//! Rooms: those that are open, and what processes that died left behind.

use serde::Serialize;
use serde_json::json;
use toolgate_contract::{Fault, Scope};
use toolgate_runtime::{
    docker_settings,
    sandbox::{DockerBackend, registry},
};

use super::{
    answer::{Answered, Data},
    args::Nothing,
    desk::{Desk, blocking, now_ms},
    tool::{Tool, admin, read},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read(
            "rooms_list",
            "The rooms that are open, or were left over by a process that died, the oldest first.",
            list,
        )
        .paged(),
        admin(
            "rooms_sweep",
            Scope::Admin,
            "Remove what processes of this deployment left behind when they died. Rooms of living ones are not touched.",
            sweep,
        ),
        read(
            "rooms_pool",
            "Containers that were made ahead: how many wait, and how many of those wanted had been made.",
            pool,
        ),
    ]
}

/// A room.
#[derive(Serialize)]
struct Row {
    id: String,
    owner: String,
    backend: String,
    tier: String,
    age_ms: u64,
    pid: u32,
    spec: String,
    workspace: Option<String>,
    /// `alive` or `left_over`.
    state: &'static str,
}

async fn list(desk: Desk, _: Nothing) -> Answered {
    let dir = desk.data_dir();
    let listed = blocking(move || registry::list(&dir)).await?.map_err(unlisted)?;
    let row = |registry::Listed { pid, is_alive, room }: registry::Listed| {
        let row = Row {
            age_ms: now_ms().saturating_sub(room.opened_at_ms),
            owner: room.owner,
            backend: room.backend,
            tier: room.tier,
            pid,
            spec: room.spec_hash,
            workspace: room.workspace.map(|path| path.display().to_string()),
            state: if is_alive { "alive" } else { "left_over" },
            id: room.id,
        };
        (row.id.clone(), json!(row))
    };
    desk.page.of(listed.into_iter().map(row).collect())
}

async fn sweep(desk: Desk, _: Nothing) -> Answered {
    let config = desk.config();
    let settings = config.in_containers().next().map(|_| docker_settings(&config.containers));
    let swept = desk.alone(move |dir| {
        let mut swept = registry::sweep(dir)?;
        let containers = settings.map_or(Ok(0), |settings| DockerBackend::sweep(dir, settings));
        let containers = containers.unwrap_or_else(|error| {
            swept.problems.push(format!("containers: {}", Fault::from(error).message));
            0
        });
        Ok((swept, containers))
    });
    let (swept, containers) = swept.await?.map_err(unlisted)?;
    let mut page = json!(swept);
    page["containers"] = json!(containers);
    Ok(Data::one(&page))
}

async fn pool(desk: Desk, _: Nothing) -> Answered {
    Ok(Data::one(&json!({ "made_ahead": desk.runtime().pooled() })))
}

fn unlisted(error: std::io::Error) -> Fault {
    let message = format!("the notes about rooms cannot be read: {error}");
    Fault::failed("rooms_unreadable", message, "Look into the data directory.")
}
