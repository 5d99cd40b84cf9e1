//! [`ServerConfig`]: TLS, the login and the time limits, for every store that has servers.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, de::MapAccess};

use super::{ConfigError, Password, duration};

/// The settings that are the same for every store that has servers: TLS, the login, and two time limits.
///
/// The configuration of a backend has them in its field `server`. In a URL and in a file they stand beside the backend's own settings:
/// [`UrlForm`](super::UrlForm) reads them from a URL, and [`Flattened`](super::Flattened) from a file.
///
/// The password is in no `Debug` output and in no error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Whether to use TLS. Default: no.
    pub tls: bool,
    /// A PEM file with the only certificates to trust. Default: those that the system trusts. Only with TLS; read once,
    /// when the backend is made.
    pub ca: Option<PathBuf>,
    /// A PEM file with the certificate (and its chain) to show to the server. Default: none. Only with `key`; read once.
    pub cert: Option<PathBuf>,
    /// A PEM file with the private key of `cert`, not encrypted. Default: none. Only with `cert`; read once.
    pub key: Option<PathBuf>,
    /// The user. Default: none. Only with a password.
    pub user: Option<String>,
    /// The password. Default: none.
    pub password: Option<Password>,
    /// A file with the password in its only line, instead of `password`: what stands in a URL, others may see. Default: none. Read once.
    pub password_file: Option<PathBuf>,
    /// How long to wait for the answer to a command. Default 2 s; 10 ms to 1 h.
    pub command_timeout: Duration,
    /// How long opening a connection may take, over all servers, from the resolution of names to the end of the login. Default
    /// 2 s; 10 ms to 1 h. A command that needs a new connection can take this and `command_timeout`.
    pub connect_timeout: Duration,
}

/// What the settings are called in a file.
pub(super) const NAMES: [&str; 9] =
    ["tls", "ca", "cert", "key", "user", "password", "password_file", "command_timeout", "connect_timeout"];

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            tls: false,
            ca: None,
            cert: None,
            key: None,
            user: None,
            password: None,
            password_file: None,
            command_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
        }
    }
}

impl ServerConfig {
    /// Checks all of them, but opens no file.
    ///
    /// # Errors
    /// [`ConfigError`] names the first that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_login()?;
        self.validate_tls()?;
        duration::within("command_timeout", self.command_timeout, &duration::TIMEOUTS)?;
        duration::within("connect_timeout", self.connect_timeout, &duration::TIMEOUTS)
    }

    /// The same for a store where every user has a name.
    ///
    /// # Errors
    /// As [`validate`](Self::validate) has, and [`ConfigError::OnlyTogether`] for a password without a user.
    pub fn validate_with_user(&self) -> Result<(), ConfigError> {
        self.validate()?;
        let missing = "user";
        match (&self.user, &self.password, &self.password_file) {
            (None, Some(_), _) => Err(ConfigError::OnlyTogether { given: "password", missing }),
            (None, _, Some(_)) => Err(ConfigError::OnlyTogether { given: "password_file", missing }),
            _ => Ok(()),
        }
    }

    /// The password, read from its file if one is given. `None` if there is no password.
    ///
    /// # Errors
    /// [`ConfigError::File`], which repeats nothing of the file.
    pub fn read_password(&self) -> Result<Option<Password>, ConfigError> {
        match &self.password_file {
            Some(file) => Password::read(file).map(Some),
            None => Ok(self.password.clone()),
        }
    }

    /// Sets what a parameter of a URL names, or returns the value if that is none of these settings.
    pub(super) fn set(&mut self, option: &'static str, value: String) -> Result<Option<String>, ConfigError> {
        match option {
            "ca" => self.ca = Some(value.into()),
            "cert" => self.cert = Some(value.into()),
            "key" => self.key = Some(value.into()),
            "password_file" => self.password_file = Some(value.into()),
            "command_timeout" => self.command_timeout = duration::setting(option, &value)?,
            "connect_timeout" => self.connect_timeout = duration::setting(option, &value)?,
            _ => return Ok(Some(value)),
        }
        Ok(None)
    }

    /// Reads the value of one of [`NAMES`] from a file.
    pub(super) fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, file: &mut A) -> Result<(), A::Error> {
        match name {
            "tls" => self.tls = file.next_value()?,
            "ca" => self.ca = file.next_value()?,
            "cert" => self.cert = file.next_value()?,
            "key" => self.key = file.next_value()?,
            "user" => self.user = file.next_value()?,
            "password" => self.password = file.next_value()?,
            "password_file" => self.password_file = file.next_value()?,
            "command_timeout" => self.command_timeout = file.next_value::<Written>()?.0,
            _ => self.connect_timeout = file.next_value::<Written>()?.0,
        }
        Ok(())
    }

    fn validate_login(&self) -> Result<(), ConfigError> {
        match (&self.user, &self.password, &self.password_file) {
            (_, Some(_), Some(file)) => {
                let (given, hint) =
                    (file.display().to_string(), "there is a password already: leave one of them out");
                Err(ConfigError::Setting { option: "password_file", given, hint })
            }
            (Some(_), None, None) => Err(ConfigError::OnlyTogether { given: "user", missing: "password" }),
            _ => Ok(()),
        }
    }

    fn validate_tls(&self) -> Result<(), ConfigError> {
        for (option, path) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            if path.is_some() && !self.tls {
                return Err(ConfigError::OnlyWithTls { option });
            }
        }
        match (&self.cert, &self.key) {
            (Some(_), None) => Err(ConfigError::OnlyTogether { given: "cert", missing: "key" }),
            (None, Some(_)) => Err(ConfigError::OnlyTogether { given: "key", missing: "cert" }),
            _ => Ok(()),
        }
    }
}

/// A duration as a file has it.
#[derive(Deserialize)]
struct Written(#[serde(with = "duration")] Duration);

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: bool, password: bool, file: bool) -> ServerConfig {
        ServerConfig {
            user: user.then(|| "app".to_owned()),
            password: password.then(|| "x".into()),
            password_file: file.then(|| "password".into()),
            ..ServerConfig::default()
        }
    }

    #[test]
    fn a_user_has_one_password_and_a_password_may_need_a_user() {
        for right in [login(true, true, false), login(true, false, true), login(false, false, false)] {
            assert_eq!(right.validate_with_user(), Ok(()));
        }
        for alone in [login(false, true, false), login(false, false, true)] {
            assert_eq!(alone.validate(), Ok(()));
            let refused = alone.validate_with_user();
            assert!(matches!(refused, Err(ConfigError::OnlyTogether { missing: "user", .. })), "{refused:?}");
        }
        let refused = login(true, false, false).validate();
        assert!(matches!(refused, Err(ConfigError::OnlyTogether { missing: "password", .. })), "{refused:?}");
        let refused = login(true, true, true).validate();
        assert!(matches!(refused, Err(ConfigError::Setting { option: "password_file", .. })), "{refused:?}");
    }
}
