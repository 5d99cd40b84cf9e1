//! [`SqliteConfig`]: the path of the file, and the time limit for commands.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use lock_core::settings::{ByName, ConfigError, UrlForm, duration};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};

/// The path of the file, and the time limit for commands.
///
/// From a URL:
///
/// ```text
/// sqlite:[path][?command_timeout=…]
/// sqlite:machine[?command_timeout=…]
/// ```
///
/// A path that begins with `~/` starts from the home folder (`HOME`), and one that does not begin with `/` from the working directory of
/// the process when the backend is made. In the path, `?`, `#` and `%` are percent-encoded. `machine` is not a path, but
/// [the file of this machine](Self::MACHINE_FILE); a file of that name is `./machine`.
///
/// ```
/// # use std::{path::Path, time::Duration};
/// use lock_sqlite::SqliteConfig;
///
/// let config: SqliteConfig = "sqlite:/var/lib/app/locks.db?command_timeout=500ms".parse()?;
/// assert_eq!(config.path.as_deref(), Some(Path::new("/var/lib/app/locks.db")));
/// assert_eq!(config.command_timeout, Duration::from_millis(500));
///
/// // The default file of this user, and that of this machine.
/// assert_eq!("sqlite:".parse::<SqliteConfig>()?, SqliteConfig::default());
/// let machine: SqliteConfig = "sqlite:machine".parse()?;
/// assert_eq!(machine.path.as_deref(), Some(Path::new(SqliteConfig::MACHINE_FILE)));
///
/// // The same from a file: a missing field has its default, an unknown one is an error.
/// let same: SqliteConfig =
///     serde_json::from_str(r#"{ "path": "/var/lib/app/locks.db", "command_timeout": "500ms" }"#)?;
/// assert_eq!(config, same);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The file. Its folder has to exist; `~/` is the home folder. Default: `distlock/locks.db` in the user's state directory
    /// (`XDG_STATE_HOME`, or `~/.local/state`), which is created for the user alone.
    pub path: Option<PathBuf>,
    /// How long a command may take. Most of that time is waiting for other writers. Default 2 s; 10 ms to 1 h.
    #[serde(with = "lock_core::settings::duration")]
    pub command_timeout: Duration,
}

const FORM: UrlForm = UrlForm {
    scheme: "sqlite",
    tls_scheme: "sqlite",
    shape: "sqlite:path, or sqlite: for the default file",
    parameters: &["command_timeout"],
};

/// The word for the file of this machine in a URL.
const MACHINE: &str = "machine";

impl Default for SqliteConfig {
    fn default() -> Self {
        Self { path: None, command_timeout: Duration::from_secs(2) }
    }
}

impl SqliteConfig {
    /// The file for all users of a group on this machine, which the URL `sqlite:machine` and the option `--machine` of the `distlock`
    /// command name. It is not created automatically: `distlock setup-machine --group NAME` creates it once, as root, with its folder and
    /// their modes. Each of these users can take the locks of the others.
    pub const MACHINE_FILE: &str = "/var/lib/distlock/locks.db";

    /// Reads a URL, as `parse` does.
    ///
    /// # Errors
    /// [`ConfigError`] says which part is wrong, and what to write instead.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let no_url = ConfigError::Url { shape: FORM.shape };
        let (scheme, rest) = url.split_once(':').ok_or_else(|| no_url.clone())?;
        if !scheme.eq_ignore_ascii_case(FORM.scheme) {
            return Err(no_url);
        }
        if rest.contains('#') {
            return Err(ConfigError::Fragment);
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        // There is no host, so only an empty one is allowed between the slashes.
        let path = match path.strip_prefix("//") {
            Some(path) if path.starts_with('/') => path,
            Some(_) => return Err(no_url),
            None => path,
        };
        let path =
            percent_decode_str(path).decode_utf8().map_err(|_| ConfigError::Encoding { part: "path" })?;
        let path: Option<PathBuf> = match &*path {
            "" => None,
            MACHINE => Some(Self::MACHINE_FILE.into()),
            path => Some(path.into()),
        };
        // A file has the same time limit for a command as a server, and the same default.
        let command_timeout = FORM.read(&format!("sqlite://here?{query}"))?.server.command_timeout;
        let config = Self { path, command_timeout };
        config.validate()?;
        Ok(config)
    }

    /// Checks every field, without opening the file. Making a backend checks them, too.
    ///
    /// # Errors
    /// [`ConfigError`] names the first field that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(path) = &self.path {
            let hint = match path.to_str() {
                Some("") => Some("write the path of a file, or leave it out for the default one"),
                Some(":memory:") => Some("use the url memory: for locks within one process"),
                Some(text) if text.contains('\0') => Some("no path has a nul character in it"),
                _ if path.file_name().is_none() || path == Path::new("~") => Some("write the path of a file"),
                _ => None,
            };
            if let Some(hint) = hint {
                let given = path.display().to_string();
                return Err(ConfigError::Setting { option: "path", given, hint });
            }
        }
        duration::within("command_timeout", self.command_timeout, &duration::TIMEOUTS)
    }
}

impl<'de> Deserialize<'de> for SqliteConfig {
    fn deserialize<D: Deserializer<'de>>(format: D) -> Result<Self, D::Error> {
        // The derived function of the remote type, not that of the trait.
        Self::deserialize(ByName(format))
    }
}

impl FromStr for SqliteConfig {
    type Err = ConfigError;

    fn from_str(url: &str) -> Result<Self, ConfigError> {
        Self::from_url(url)
    }
}

/// The settings as a URL, for messages.
impl fmt::Display for SqliteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "sqlite:{}", path.display()),
            None => f.write_str("sqlite:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_in_every_way_in_which_people_write_one() {
        for (url, path) in [
            ("sqlite:/a/b.db", Some("/a/b.db")),
            ("sqlite:///a/b.db", Some("/a/b.db")),
            ("SQLITE:b.db", Some("b.db")),
            ("sqlite:./b.db?command_timeout=1s", Some("./b.db")),
            ("sqlite:a%3Fb%23%25.db", Some("a?b#%.db")),
            ("sqlite:user@host.db", Some("user@host.db")),
            ("sqlite:~/b.db", Some("~/b.db")),
            ("sqlite:machine", Some(SqliteConfig::MACHINE_FILE)),
            ("sqlite:machine?command_timeout=1s", Some(SqliteConfig::MACHINE_FILE)),
            ("sqlite:./machine", Some("./machine")),
            ("sqlite:Machine", Some("Machine")),
            ("sqlite:", None),
            ("sqlite:?command_timeout=1s", None),
        ] {
            assert_eq!(SqliteConfig::from_url(url).unwrap().path.as_deref(), path.map(Path::new), "{url}");
        }
    }

    #[test]
    fn every_wrong_url_says_what_is_wrong() {
        for (url, says) in [
            ("sqlite", "sqlite:path"),
            ("redis:x", "sqlite:path"),
            ("sqlite://host/a.db", "sqlite:path"),
            ("sqlite::memory:", "memory:"),
            ("sqlite:/", "the path of a file"),
            ("sqlite:a/..", "the path of a file"),
            ("sqlite:~", "the path of a file"),
            ("sqlite:~/", "the path of a file"),
            ("sqlite:a%00b", "nul"),
            ("sqlite:a%ff", "percent-encode"),
            ("sqlite:a#b", "%23"),
            ("sqlite:a?mode=ro", "there is no parameter `mode`; there are command_timeout"),
            ("sqlite:a?command_timeout=1s&command_timeout=1s", "twice"),
            ("sqlite:a?command_timeout=soon", "500ms"),
            ("sqlite:a?command_timeout=1ms", "use 10ms to 3600s"),
        ] {
            let error = SqliteConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }
}
