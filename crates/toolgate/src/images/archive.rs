//! The file a daemon loads: a layer, what it is, and what it is called.
//!
//! It is an OCI layout with the list that Docker wants beside it, so daemons that keep images either way load it. We
//! write it ourselves instead of importing a bare tree: a daemon would put the time of day into what it imports, and with
//! it another id.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use serde_json::json;
use tar::{Builder, Header};
use toolgate_contract::{Digest, Fault, canonical_json};
use toolgate_runtime::config::Recipe;

use super::{
    Built, Package,
    layer::Layer,
    rewind,
    stop::{Stop, Watched, stopped},
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Writes an archive, and gives it back at its beginning.
pub(super) fn write(
    recipe: &Recipe,
    layer: Layer,
    packages: Vec<Package>,
    archive: File,
    stop: &Stop,
) -> Result<(Built, File), Fault> {
    let described = describe(recipe, &layer, &packages).map_err(|error| unwritable(error.into()))?;
    let Described { config, manifest, index, list } = &described;
    let built = Built {
        name: recipe.name.clone(),
        tag: recipe.tag.clone(),
        id: Digest::of(config),
        digest: Digest::of(manifest),
        layer: layer.digest,
        bytes: layer.bytes,
        suite: recipe.suite.clone(),
        recipe: recipe.sha256,
        packages,
    };
    let newest = newest(recipe);
    let put = |archive: File| -> io::Result<File> {
        let mut out = Builder::new(archive);
        let layout = br#"{"imageLayoutVersion":"1.0.0"}"#;
        file(&mut out, "oci-layout", layout.len() as u64, &layout[..], newest)?;
        file(&mut out, "index.json", index.len() as u64, &**index, newest)?;
        file(&mut out, "manifest.json", list.len() as u64, &**list, newest)?;
        file(&mut out, &blob(&built.id), config.len() as u64, &**config, newest)?;
        file(&mut out, &blob(&built.digest), manifest.len() as u64, &**manifest, newest)?;
        let bytes = Watched { file: rewind(layer.file)?, stop: stop.clone() };
        file(&mut out, &blob(&built.layer), layer.bytes, bytes, newest)?;
        let archive = out.into_inner()?;
        archive.sync_all()?;
        rewind(archive)
    };
    match put(archive) {
        Ok(archive) => Ok((built, archive)),
        Err(_) if stop.asked() => Err(stopped()),
        Err(error) => Err(unwritable(error)),
    }
}

fn unwritable(error: io::Error) -> Fault {
    let message = format!("the archive cannot be written: {error}");
    Fault::failed("image_not_written", message, "Make room on the disk, or set `TMPDIR` to a larger one.")
}

/// The texts around a layer.
struct Described {
    config: Vec<u8>,
    manifest: Vec<u8>,
    index: Vec<u8>,
    /// For Docker.
    list: Vec<u8>,
}

/// Keys are in a fixed order, whatever this program was built with.
fn describe(recipe: &Recipe, layer: &Layer, packages: &[Package]) -> Result<Described, serde_json::Error> {
    let created = format!("{}T00:00:00Z", recipe.date);
    let versions: Vec<String> = packages.iter().map(|it| format!("{}={}", it.name, it.version)).collect();
    let config = canonical_json(&json!({
        "architecture": architecture(),
        "os": "linux",
        "created": created,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
            "Labels": {
                "toolgate.image.recipe": recipe.name,
                "toolgate.image.recipe.sha256": recipe.sha256.to_string(),
                "toolgate.image.layer": layer.digest.to_string(),
                "toolgate.image.suite": recipe.suite,
                "toolgate.image.packages": versions.join(" "),
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer.digest.to_string()] },
        "history": [{ "created": created, "created_by": format!("toolgate images build {}", recipe.name) }],
    }))?;
    let about =
        |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": Digest::of(bytes), "size": bytes.len() });
    let manifest = canonical_json(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": about(CONFIG, &config),
        "layers": [{ "mediaType": LAYER, "digest": layer.digest, "size": layer.bytes }],
    }))?;
    let mut entry = about(MANIFEST, &manifest);
    let (name, tag) = recipe.tag.split_once(':').unwrap_or((&recipe.tag, "latest"));
    let library = if name.contains('/') { "" } else { "library/" };
    entry["annotations"] = json!({
        "io.containerd.image.name": format!("docker.io/{library}{name}:{tag}"),
        "org.opencontainers.image.ref.name": tag,
    });
    entry["platform"] = json!({ "architecture": architecture(), "os": "linux" });
    let index = canonical_json(&json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry] }))?;
    let list = canonical_json(&json!([{
        "Config": blob(&Digest::of(&config)),
        "RepoTags": [recipe.tag],
        "Layers": [blob(&layer.digest)],
    }]))?;
    Ok(Described { config, manifest, index, list })
}

fn blob(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// This machine's, as images spell it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The time of a recipe, in seconds since 1970.
pub(super) fn newest(recipe: &Recipe) -> u64 {
    let midnight = recipe.date.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp().as_second());
    midnight.ok().and_then(|second| u64::try_from(second).ok()).unwrap_or_default()
}

fn file(out: &mut Builder<impl Write>, path: &str, bytes: u64, content: impl Read, newest: u64) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(newest);
    header.set_size(bytes);
    out.append_data(&mut header, path, content)
}
