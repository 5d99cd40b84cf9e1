//! [`Settings`]: which store, and the defaults of a user, from flags, variables and a file.

use std::{
    env::{self, VarError},
    fs,
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
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
    /// What the user should know about where they come from.
    pub(crate) warnings: Vec<String>,
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
        let path = args.config.clone().or_else(default_path);
        let file = match &path {
            Some(path) => read(path)?,
            None => None,
        };
        let file = match (file, &args.config) {
            (None, Some(path)) => {
                let message = format!("there is no settings file {}", path.display());
                return Err(Failure::new(Exit::USAGE, message));
            }
            (file, _) => file.unwrap_or_default(),
        };
        let mut warnings = Vec::new();
        let with_url = path.filter(|_| file.url.is_some());
        warnings.extend(with_url.and_then(|path| exposed(&path, file.url.as_deref()?)));
        let url = match &args.url_file {
            Some(path) => {
                let url = url_in(path)?;
                warnings.extend(exposed(path, &url));
                url
            }
            None => url(args.url.as_deref(), &file)?,
        };
        Ok(Self { url, file, warnings })
    }
}

/// The first one there is. One that is empty is a mistake, as of a variable that was to be set: locks that are silently those of this
/// machine alone exclude nobody on the others.
fn url(flag: Option<&str>, file: &File) -> Result<String, Failure> {
    let variable = match env::var("DISTLOCK_URL") {
        Ok(url) => Some(url),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) if flag.is_some() => None,
        Err(VarError::NotUnicode(_)) => return Err(no_url("the variable DISTLOCK_URL is not UTF-8")),
    };
    let given = [
        (flag, "--url is empty"),
        (variable.as_deref(), "the variable DISTLOCK_URL is empty"),
        (file.url.as_deref(), "`url` of the settings file is empty"),
    ];
    match given.into_iter().find_map(|(url, empty)| Some((url?, empty))) {
        Some((url, empty)) if url.trim().is_empty() => Err(no_url(empty)),
        Some((url, _)) => Ok(url.to_owned()),
        None => Ok(DEFAULT_URL.to_owned()),
    }
}

/// The only line of a file.
fn url_in(path: &Path) -> Result<String, Failure> {
    let wrong = |problem: &str| no_url(&format!("the file {} {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong("cannot be read").because(&error))?;
    match text.trim() {
        "" => Err(wrong("has no URL in it")),
        // The text may be a password: it is not repeated.
        url if url.contains('\n') => Err(wrong("has more than one line")),
        url => Ok(url.to_owned()),
    }
}

fn no_url(problem: &str) -> Failure {
    Failure::new(Exit::USAGE, problem)
        .hint("the URL of a store, or none: then locks are of this machine alone")
}

/// What is to be said of a file with a password, if everybody may read it.
fn exposed(path: &Path, url: &str) -> Option<String> {
    let for_everybody = fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0);
    let warning = || format!("{} has a password in it, and everybody may read it: chmod o-r", path.display());
    (for_everybody && has_password(url)).then(warning)
}

fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@'));
    user.and_then(|(user, _)| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_where_it_stands() {
        for url in ["redis://:secret@h", "rediss://u:p@h:1/2?a=b", "etcd://u:p%2F@h,g/prefix"] {
            assert!(has_password(url), "{url}");
        }
        for url in
            ["sqlite:/a:b@c", "redis://h", "redis://u@h", "redis://u:@h", "zk://h/a:b@c", "redis://h?x=a:b@c"]
        {
            assert!(!has_password(url), "{url}");
        }
    }
}
