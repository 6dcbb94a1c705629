//! What can run.
//!
//! A tool is a value ([`Tool`]) and a function, in one file with its tests; [`TOOLS`] is the list of those that ship.
//! A body gets a [`Cx`], its only hands: an opened workspace, a room for programs, a fenced client, a clock, chance, progress, a way to notice that it
//! should stop. It opens no path, socket or process by itself (`clippy.toml` bars the std ways), decides no policy
//! and writes no record: this crate cannot even name the crates that do.

mod cx;
mod discovery;
mod external;
mod files;
mod finder;
mod forge;
mod git;
mod inquiry;
mod memory;
mod once;
mod own_calls;
mod programs;
mod tool;
mod utility;
mod web;
mod web_fault;
#[cfg(test)]
mod web_stage;

pub use cx::{Clock, Cx, Hands, Listener, Programs, Progress, ProgressSink, Remark, Seen, StopFlag, Web, Weight};
pub use files::{Closed, Protected, Workspace};
pub use finder::{Finder, LoadedTool, ToolLine, ToolLines, ToolQuery, ToolResource, ToolResourceLine};
pub use inquiry::{Caller, Inquiries, Inquiry, Replies, Replying};
pub use own_calls::{InFull, OwnCalls, PastCall, PastCalls, PastEffect};
pub use tool::{
    Answer, Awaited, Output, Preview, Reading, Reconcile, Reconciled, Run, Tool, Waits, Work, input_schema,
};

/// Every tool that ships, one line each.
pub const TOOLS: &[fn() -> Tool] = &[
    discovery::call_tool::tool,
    discovery::list_tools::tool,
    discovery::load_tool::tool,
    discovery::load_tool_resource::tool,
    external::external_data::tool,
    files::delete::tool,
    files::edit::tool,
    files::find::tool,
    files::grep::tool,
    files::ls::tool,
    files::read::tool,
    files::write::tool,
    forge::pr_comment::tool,
    forge::pr_create::tool,
    forge::pr_list::tool,
    forge::pr_merge::tool,
    forge::pr_view::tool,
    git::blame::tool,
    git::branch::tool,
    git::clone::tool,
    git::commit::tool,
    git::diff::tool,
    git::fetch::tool,
    git::log::tool,
    git::merge::tool,
    git::pull::tool,
    git::push::tool,
    git::show::tool,
    git::stash::tool,
    git::status::tool,
    git::tag::tool,
    memory::recent_calls::tool,
    programs::bash::tool,
    programs::run_code::tool,
    programs::shell::tool,
    programs::terminal_close::tool,
    programs::terminal_open::tool,
    programs::terminal_read::tool,
    programs::terminal_send::tool,
    utility::calculator::tool,
    utility::convert_temperature::tool,
    utility::echo::tool,
    utility::generate_password::tool,
    utility::generate_uuid::tool,
    utility::get_time::tool,
    utility::hash_text::tool,
    utility::json_format::tool,
    utility::string_stats::tool,
    utility::url_encode::tool,
    web::fetch_url::tool,
    web::html_parse::tool,
    web::http_request::tool,
    web::read_webpage::tool,
    web::web_search::tool,
];
