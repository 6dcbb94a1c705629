//! `toolgate images`: images for containers, made on this machine.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::{Args, Subcommand};
use serde_json::json;
use toolgate_contract::Fault;
use toolgate_runtime::config::Recipe;

use crate::{
    images::{self, Built, Stop},
    problem::Problem,
    setup::Place,
    show,
};

/// Make images for containers from Debian packages, where no registry is at hand
///
/// A recipe names a Debian release and packages. They are installed by `mmdebstrap` from the mirrors this machine's apt
/// uses, verified with Debian's keys. The same packages make the same image, down to its id. What was made is remembered
/// in the data directory and in labels of the image.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolgate images list
  toolgate images build base
  toolgate images build ./mine.yaml --host unix:///run/user/1000/docker.sock
  toolgate images build base --output base.tar")]
pub(crate) struct Images {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make an image, and load it into the daemon
    Build {
        /// A recipe by its name, or the path of one
        recipe: String,
        /// Write an archive that `docker load` takes, and ask no daemon
        #[arg(long, value_name = "FILE", conflicts_with = "host")]
        output: Option<PathBuf>,
        /// The daemon's socket, as `unix:///path`; else the one containers are made with
        #[arg(long, value_name = "URL")]
        host: Option<String>,
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
    /// List the recipes, and what was made of them
    List {
        /// Print JSON, also on a terminal
        #[arg(long)]
        json: bool,
    },
}

impl Images {
    pub(crate) fn run(self, place: &Place) -> Result<ExitCode, Problem> {
        match self.command {
            Command::Build { recipe, output, host, json } => {
                let recipe = images::find(&recipe)?;
                let built = match output {
                    Some(file) => write(&recipe, &file)?,
                    None => load(&recipe, &place.docker_socket(host.as_deref())?)?,
                };
                images::keep(&place.data_dir()?, &built)?;
                told(&built, json)?;
            }
            Command::List { json } => list(&place.data_dir()?, json)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Makes an image as a file. The file has its name once it is whole.
fn write(recipe: &Recipe, file: &Path) -> Result<Built, Problem> {
    let stop = Stop::listen()?;
    let unwritable = |error: std::io::Error| {
        let message = format!("`{}` cannot be written: {error}", file.display());
        Fault::failed("image_not_written", message, "Name a file in a directory you may write.")
    };
    let dir = file.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    // It is nobody's secret: the user's mask alone says who may read it.
    let mut named = tempfile::Builder::new();
    named.prefix(".toolgate-image-").permissions(Permissions::from_mode(0o666));
    let archive = named.tempfile_in(dir).map_err(unwritable)?;
    let (built, _) = images::build(recipe, archive.as_file().try_clone()?, &stop, &progress())?;
    stop.or_go_on()?;
    archive.persist(file).map_err(|error| unwritable(error.error))?;
    Ok(built)
}

fn load(recipe: &Recipe, socket: &Path) -> Result<Built, Problem> {
    images::find_daemon_at(socket)?;
    let (stop, say) = (Stop::listen()?, progress());
    let (built, archive) = images::build(recipe, tempfile::tempfile()?, &stop, &say)?;
    say("loading the image");
    images::load(socket, &built, archive, &stop)?;
    Ok(built)
}

/// Tells each stage when it begins, with the seconds since the first.
fn progress() -> impl Fn(&str) + Sync {
    let began = Instant::now();
    move |stage| anstream::eprintln!("{:>4} s  {stage}", began.elapsed().as_secs())
}

fn told(built: &Built, json: bool) -> Result<(), Problem> {
    if show::wants_json(json) {
        return show::json(built);
    }
    let Built { tag, id, digest, bytes, packages, .. } = built;
    show::line(&format!("image     {tag}"))?;
    show::line(&format!("id        {id}"))?;
    show::line(&format!("digest    {digest}"))?;
    show::line(&format!("size      {} MB", bytes.div_ceil(1_000_000)))?;
    show::line(&format!("packages  {}", packages.len()))
}

fn list(data_dir: &Path, json: bool) -> Result<(), Problem> {
    let recipes = images::built_in()?;
    let rows = recipes.iter().map(|recipe| (recipe, images::kept(data_dir, &recipe.name)));
    if show::wants_json(json) {
        let row = |(recipe, built): (&Recipe, Option<Built>)| {
            json!({
                "name": recipe.name, "about": recipe.about, "tag": recipe.tag, "suite": recipe.suite,
                "packages": recipe.packages, "max_bytes": recipe.max_bytes, "recipe": recipe.sha256, "built": built,
            })
        };
        return show::json(&json!({ "recipes": rows.map(row).collect::<Vec<_>>() }));
    }
    let row = |(recipe, built): (&Recipe, Option<Built>)| {
        let id = built.map_or_else(|| "-".to_owned(), |built| built.id.to_string());
        [recipe.name.clone(), recipe.tag.clone(), recipe.suite.clone(), id, recipe.about.clone()]
    };
    show::table(["NAME", "IMAGE", "SUITE", "MADE", "ABOUT"], rows.map(row))
}
