//! [`Settings`]: which store, and the defaults of a user, from flags, variables and a file.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::{args::StoreArgs, exit::Exit, failure::Failure};

/// The store when nobody says otherwise: one file, shared by all processes of this machine.
const DEFAULT_URL: &str = "sqlite:";

/// What was settled before the command line was looked at.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) file: File,
}

/// The settings file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct File {
    url: Option<String>,
    #[serde(with = "distlock::settings::duration::option")]
    pub(crate) ttl: Option<Duration>,
    #[serde(with = "distlock::settings::duration::option")]
    pub(crate) wait: Option<Duration>,
    #[serde(with = "distlock::settings::duration::option")]
    pub(crate) grace: Option<Duration>,
}

impl Settings {
    /// A flag is stronger than a variable, and a variable than the file.
    pub(crate) fn of(args: &StoreArgs) -> Result<Self, Failure> {
        let file = match &args.config {
            Some(path) => read(path)?.ok_or_else(|| {
                Failure::new(Exit::USAGE, format!("there is no settings file {}", path.display()))
            })?,
            None => match default_path() {
                Some(path) => read(&path)?.unwrap_or_default(),
                None => File::default(),
            },
        };
        let variable = env::var("DISTLOCK_URL").ok().filter(|url| !url.is_empty());
        let url = args.url.clone().or(variable).or_else(|| file.url.clone());
        Ok(Self { url: url.unwrap_or_else(|| DEFAULT_URL.to_owned()), file })
    }
}

/// `None` if there is no such file.
fn read(path: &Path) -> Result<Option<File>, Failure> {
    let wrong = |problem: String| {
        Failure::new(Exit::USAGE, format!("the settings file {}: {problem}", path.display()))
    };
    match fs::read_to_string(path) {
        // The text of the error would quote the line, and with it a password.
        Ok(text) => toml::from_str(&text).map(Some).map_err(|error| {
            let line = error.span().map(|span| text[..span.start].matches('\n').count() + 1);
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            wrong(format!("{line}{}", error.message()))
                .hint("url = \"…\", ttl = \"30s\", wait = \"10s\", grace = \"5s\"")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// `$XDG_CONFIG_HOME/distlock/config.toml`, or below `~/.config`.
fn default_path() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("distlock").join("config.toml"))
}
