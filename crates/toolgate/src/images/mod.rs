//! Images for containers, made on this machine from Debian packages.
//!
//! A recipe ([`Recipe`]) says what is in an image. [`bootstrap`] has `mmdebstrap` install it, [`layer`] takes the tree it
//! streams and writes the one layer of the image, and [`archive`] puts that layer and its description into a file that
//! every daemon loads. Whatever differs between two builds on the same packages is left out or set on the way, so that
//! the image has the same id each time.

mod archive;
mod bootstrap;
mod kept;
mod layer;
mod mirrors;
mod stop;

use std::{
    fs::File,
    io::{self, Seek as _},
    path::Path,
};

use serde::{Deserialize, Serialize};
use toolgate_contract::{Digest, Fault};
use toolgate_runtime::{
    config::Recipe,
    sandbox::{RoomError, find_daemon, load_image},
};

use crate::problem::Problem;

use stop::Watched;

pub(crate) use kept::{keep, kept};
pub(crate) use stop::Stop;

/// The recipes that are part of this program: the name and the text.
const RECIPES: [(&str, &str); 1] = [("base", include_str!("../../../../images/base.yaml"))];

/// An image that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Built {
    /// The recipe.
    pub(crate) name: String,
    /// What the daemon knows it by.
    pub(crate) tag: String,
    /// The hash of its description; most daemons know it by this too.
    pub(crate) id: Digest,
    /// The hash of its manifest, as in `name@sha256:..`; some daemons take this for the id.
    pub(crate) digest: Digest,
    /// The hash of its layer.
    pub(crate) layer: Digest,
    /// The size of its layer.
    pub(crate) bytes: u64,
    pub(crate) suite: String,
    /// The hash of the recipe's text.
    pub(crate) recipe: Digest,
    pub(crate) packages: Vec<Package>,
}

/// A package of an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) architecture: String,
}

/// The recipes that are part of this program.
pub(crate) fn built_in() -> Result<Vec<Recipe>, Problem> {
    RECIPES.iter().map(|(name, text)| Ok(Recipe::parse(&format!("{name}.yaml"), text)?)).collect()
}

/// A recipe by its name, or by its file: whatever has a slash or ends in `.yaml` is a file.
pub(crate) fn find(which: &str) -> Result<Recipe, Problem> {
    if which.contains('/') || which.ends_with(".yaml") {
        return Ok(Recipe::open(Path::new(which))?);
    }
    let known = built_in()?;
    let names: Vec<String> = known.iter().map(|recipe| format!("`{}`", recipe.name)).collect();
    let unknown = || {
        let remedy = format!("Choose {}, or write the path of a recipe, such as `./{which}.yaml`.", names.join(", "));
        Fault::failed("unknown_recipe", format!("there is no recipe `{which}`"), remedy)
    };
    Ok(known.into_iter().find(|recipe| recipe.name == which).ok_or_else(unknown)?)
}

/// Makes an image, and gives its archive back at its beginning.
pub(crate) fn build(
    recipe: &Recipe,
    archive: File,
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(Built, File), Problem> {
    bootstrap::can_build()?;
    let mirrors = mirrors::of(recipe)?;
    let (layer, packages) = bootstrap::run(recipe, &mirrors, stop, say)?;
    if layer.bytes > recipe.max_bytes {
        let (bytes, most) = (layer.bytes, recipe.max_bytes);
        let message = format!("the image has {bytes} bytes, and its recipe allows {most}");
        return Err(
            Fault::refused("image_too_large", message, "Take packages out, remove more, or raise `max_size`.").into()
        );
    }
    say("writing the archive");
    Ok(archive::write(recipe, layer, packages, archive, stop)?)
}

/// Says no where no daemon answers: better at once than after the build.
pub(crate) fn find_daemon_at(socket: &Path) -> Result<(), Problem> {
    Ok(find_daemon(socket).map_err(not_loaded)?)
}

/// Gives an image to the daemon behind `socket`, and makes sure that it has the image that was made.
pub(crate) fn load(socket: &Path, built: &Built, archive: File, stop: &Stop) -> Result<(), Problem> {
    let found = load_image(socket, Watched { file: archive, stop: stop.clone() }, &built.tag).map_err(|error| {
        match stop.asked() {
            true => stop::stopped(),
            false => not_loaded(error),
        }
    })?;
    if [built.id, built.digest].iter().any(|digest| digest.to_string() == found) {
        return Ok(());
    }
    let message = format!("the daemon says that `{}` is `{found}`, and `{}` was made", built.tag, built.id);
    Err(Fault::failed("image_differs", message, "Look for somebody else who loads an image of this name.").into())
}

fn not_loaded(error: RoomError) -> Fault {
    let fault = Fault::from(error);
    let remedy = "Start the daemon, name its socket with `--host unix:///path`, or write a file with `--output FILE`.";
    Fault::failed("image_not_loaded", fault.message, remedy)
}

/// Reads an archive from its beginning.
fn rewind(mut archive: File) -> io::Result<File> {
    archive.rewind()?;
    Ok(archive)
}
