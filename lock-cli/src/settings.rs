//! [`Settings`]: the store and the user's defaults, from flags, variables and a file.

use std::{
    env::{self, VarError},
    ffi::OsString,
    fmt,
    fs::{self, DirBuilder},
    io::{self, ErrorKind},
    os::unix::{
        ffi::OsStringExt,
        fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::{User, getegid, geteuid};
use serde::{
    Deserialize, Deserializer,
    de::{Error, Unexpected, Visitor},
};

use crate::{
    args::{self, StoreArgs},
    exit::Exit,
    failure::Failure,
    machine,
};

/// The default store: one file for all processes of this user on this machine.
const DEFAULT_URL: &str = "sqlite:";

/// The store, and the defaults of the settings file.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) file: SettingsFile,
    /// What has chosen the file, if the store is the default one.
    pub(crate) default_by: Option<&'static str>,
    /// What the user should know about the files that were read.
    pub(crate) warnings: Vec<String>,
}

/// The settings file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SettingsFile {
    url: Option<String>,
    #[serde(deserialize_with = "duration")]
    pub(crate) ttl: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(crate) wait: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(crate) grace: Option<Duration>,
}

/// As on the command line; a number needs no quotes.
fn duration<'de, D: Deserializer<'de>>(format: D) -> Result<Option<Duration>, D::Error> {
    format.deserialize_any(DurationVisitor).map(Some)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds, or a duration such as 500ms or 1m 30s")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        args::duration(text).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Duration, E> {
        let duration = u64::try_from(seconds).map(Duration::from_secs);
        duration.map_err(|_| E::invalid_value(Unexpected::Signed(seconds), &self))
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Duration, E> {
        let duration = Duration::try_from_secs_f64(seconds);
        duration.map_err(|_| E::invalid_value(Unexpected::Float(seconds), &self))
    }
}

impl Settings {
    /// A flag goes before a variable, and a variable before the file.
    pub(crate) fn load(args: &StoreArgs) -> Result<Self, Failure> {
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
        let with_password = file.url.as_deref().is_some_and(has_password);
        warnings.extend(path.filter(|_| with_password).and_then(|path| exposure_warning(&path)));
        let url = match &args.url_file {
            _ if args.machine => machine::URL.to_owned(),
            Some(path) => {
                let url = read_url_file(path)?;
                let with_password = has_password(&url);
                warnings.extend(Some(path).filter(|_| with_password).and_then(|path| exposure_warning(path)));
                url
            }
            None => url(args.url.as_deref(), &file)?,
        };
        if machine::is_machine_url(&url) {
            machine::check()?;
        }
        let (url, default_by) = if url == DEFAULT_URL {
            let (url, by) = default_url()?;
            (url, Some(by))
        } else {
            (url, None)
        };
        warnings.extend(password_file(&url).and_then(|path| exposure_warning(&path)));
        Ok(Self { url, file, default_by, warnings })
    }

    /// Which users and machines share the locks.
    pub(crate) fn shared_by(&self) -> &'static str {
        match (self.default_by.is_some(), self.is_file()) {
            (true, _) => {
                "this user, this machine: other users and other machines have locks of their own, and so have processes of this user with \
                 another XDG_STATE_HOME or HOME"
            }
            (false, true) => "this machine: those users who may write to the file",
            (false, false) => "all machines and users who use this server in the same way",
        }
    }

    /// The store as messages name it: without user, password and parameters.
    pub(crate) fn store_address(&self) -> String {
        address(&self.url)
    }

    /// Whether the store is a file on this machine.
    pub(crate) fn is_file(&self) -> bool {
        self.url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("sqlite:"))
    }
}

/// The first URL that is set. An empty one is an error, because the default in its place would not exclude other machines: a
/// script may have a variable that was never set.
fn url(flag: Option<&str>, file: &SettingsFile) -> Result<String, Failure> {
    let variable = match env::var("DISTLOCK_URL") {
        Ok(url) => Some(url),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) if flag.is_some() => None,
        Err(VarError::NotUnicode(_)) => return Err(bad_url("the variable DISTLOCK_URL is not UTF-8")),
    };
    let given = [
        (flag, "--url is empty"),
        (variable.as_deref(), "the variable DISTLOCK_URL is empty"),
        (file.url.as_deref(), "`url` of the settings file is empty"),
    ];
    match given.into_iter().find_map(|(url, empty)| Some((url?, empty))) {
        Some((url, empty)) if url.trim().is_empty() => Err(bad_url(empty)),
        Some((url, _)) => Ok(url.to_owned()),
        None => Ok(DEFAULT_URL.to_owned()),
    }
}

/// The URL in the only line of a file.
fn read_url_file(path: &Path) -> Result<String, Failure> {
    let wrong = |problem: &str| bad_url(&format!("the file {} {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| wrong("cannot be read").because(&error))?;
    match text.trim() {
        "" => Err(wrong("has no URL in it")),
        // The text is not repeated: it may be a password.
        url if url.contains('\n') => Err(wrong("has more than one line")),
        url => Ok(url.to_owned()),
    }
}

fn bad_url(problem: &str) -> Failure {
    Failure::new(Exit::USAGE, problem)
        .hint("the URL of a store, or none: then locks are of this machine alone")
}

/// A warning about a file with a password that others may read: everybody, or, if the file is our own, a group that is not our primary
/// one. The owner of any other file decides about its group: a file of root for the group of a service is right.
fn exposure_warning(path: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    let may = |bit| file.mode() & bit != 0;
    let of_a_group = may(0o040) && file.uid() == geteuid().as_raw() && file.gid() != getegid().as_raw();
    let (others, mend) = match (may(0o004), of_a_group) {
        (true, false) => ("everybody".to_owned(), "o-r"),
        (true, true) => ("everybody".to_owned(), "go-r"),
        (false, true) => (format!("group {}", file.gid()), "g-r"),
        (false, false) => return None,
    };
    Some(format!("{} has a password in it, and {others} may read it: chmod {mend}", path.display()))
}

/// The password file that a URL names.
fn password_file(url: &str) -> Option<PathBuf> {
    let (_, parameters) = url.split_once('?')?;
    let value = parameters.split('&').find_map(|parameter| parameter.strip_prefix("password_file="))?;
    Some(percent_decoded(value).into())
}

/// Decodes `%` and two digits; all other text stays as it is.
fn percent_decoded(text: &str) -> OsString {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        let digits =
            after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    OsString::from_vec(bytes)
}

fn has_password(url: &str) -> bool {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    let user = authority.and_then(|authority| authority.rsplit_once('@'));
    user.and_then(|(user, _)| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
}

/// A URL without user, password and parameters.
fn address(url: &str) -> String {
    let place = url.split(['?', '#']).next().unwrap_or(url);
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let hosts = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{hosts}{path}")
}

/// `None` if there is no such file.
fn read(path: &Path) -> Result<Option<SettingsFile>, Failure> {
    let wrong = |problem: String| {
        Failure::new(Exit::USAGE, format!("the settings file {}: {problem}", path.display()))
    };
    match fs::read_to_string(path) {
        // Only the message: the whole error would quote the line, and with it a password.
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
    let home = || absolute("HOME").or_else(home_of_user);
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))?;
    Some(config.join("distlock").join("config.toml"))
}

/// The URL of the default store, and what has chosen its file. With the variables, the store finds its file by itself. Without them, as in
/// services and with `env -i`, the file is in the same place below the home folder of the user database.
fn default_url() -> Result<(String, &'static str), Failure> {
    if let Some(variable) = ["XDG_STATE_HOME", "HOME"].into_iter().find(|name| absolute(name).is_some()) {
        return Ok((DEFAULT_URL.to_owned(), variable));
    }
    let nowhere =
        || Failure::new(Exit::USAGE, "HOME is not set: use --url").hint("the URL of a store, as sqlite:PATH");
    let home = home_of_user().ok_or_else(nowhere)?;
    let url = default_url_in(&home).map_err(|error| nowhere().because(&error))?;
    Ok((url, "the user database, because HOME is not set"))
}

/// The URL of the default file. Its folder is created as the store does it: for this user alone.
fn default_url_in(home: &Path) -> io::Result<String> {
    let folder = home.join(".local/state/distlock");
    let file = folder.join("locks.db");
    // These have another meaning in a URL.
    let Some(path) = file.to_str().filter(|file| !file.contains(['%', '?', '#'])) else {
        return Err(io::Error::other(format!("{} cannot be written as a URL", file.display())));
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", folder.display())))?;
    Ok(format!("sqlite:{path}"))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn home_of_user() -> Option<PathBuf> {
    let user = User::from_uid(geteuid()).ok()?;
    user.map(|user| user.dir).filter(|home| home.is_absolute())
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

    #[test]
    fn an_address_has_no_user_password_or_settings_in_it() {
        for (url, shown) in [
            ("redis://u:hunter2@h:1/2?command_timeout=1s", "redis://h:1/2"),
            ("etcds://u:p%40@h,g:2/prefix?password_file=/run/a", "etcds://h,g:2/prefix"),
            ("zk://h/a@b", "zk://h/a@b"),
            ("redis://:hunter2@h#x", "redis://h"),
            ("sqlite:/var/a@b.db?command_timeout=1s", "sqlite:/var/a@b.db"),
            ("sqlite:", "sqlite:"),
        ] {
            assert_eq!(address(url), shown, "{url}");
        }
    }

    #[test]
    fn the_default_file_is_below_home_in_a_folder_for_its_user_alone() {
        let home = tempfile::tempdir().unwrap();
        let url = default_url_in(home.path()).unwrap();
        let folder = home.path().join(".local/state/distlock");
        assert_eq!(url, format!("sqlite:{}/locks.db", folder.display()));
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
        assert!(default_url_in(&home.path().join("what?")).is_err(), "that is no path in a URL");
    }

    #[test]
    fn the_file_of_a_password_is_found_in_a_url() {
        for (url, file) in [
            ("redis://u@h?password_file=/run/secrets/a", Some("/run/secrets/a")),
            ("etcd://u@h,g/prefix?heartbeat=1s&password_file=%2Frun%2fa%20b&ca=/c", Some("/run/a b")),
            ("zk://u@h?password_file=100%&x=y", Some("100%")),
            ("redis://u@h?ca=password_file=/a", None),
            ("sqlite:/a/password_file=/b", None),
        ] {
            assert_eq!(password_file(url), file.map(PathBuf::from), "{url}");
        }
    }
}
