//! [`Login`]: the identity of the client, as a user and a password.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{ConfigError, Password};

/// The settings `user`, `password` and `password_file` of a backend.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The user. Only with a password.
    pub user: &'a Option<String>,
    /// The password itself.
    pub password: &'a Option<Password>,
    /// A file with the password in its only line, instead of the password itself.
    pub password_file: &'a Option<PathBuf>,
}

impl Login<'_> {
    /// Checks which of them are there, and opens no file.
    ///
    /// # Errors
    /// [`ConfigError::OnlyTogether`] for a user without a password, and [`ConfigError::Setting`] for two passwords.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match (self.user, self.password, self.password_file) {
            (_, Some(_), Some(file)) => {
                let (given, hint) =
                    (file.display().to_string(), "there is a password already: leave one of them out");
                Err(ConfigError::Setting { option: "password_file", given, hint })
            }
            (Some(_), None, None) => Err(ConfigError::OnlyTogether { given: "user", missing: "password" }),
            _ => Ok(()),
        }
    }

    /// The same for a store where every user has a name.
    ///
    /// # Errors
    /// As [`validate`](Self::validate) has, and [`ConfigError::OnlyTogether`] for a password without a user.
    pub fn validate_with_user(&self) -> Result<(), ConfigError> {
        self.validate()?;
        let missing = "user";
        match (self.user, self.password, self.password_file) {
            (None, Some(_), _) => Err(ConfigError::OnlyTogether { given: "password", missing }),
            (None, _, Some(_)) => Err(ConfigError::OnlyTogether { given: "password_file", missing }),
            _ => Ok(()),
        }
    }

    /// The password, read from its file if one is given. `None` if there is no password.
    ///
    /// # Errors
    /// [`ConfigError::File`], which repeats nothing of the file.
    pub fn read(&self) -> Result<Option<Password>, ConfigError> {
        match self.password_file {
            Some(file) => read(file).map(Some),
            None => Ok(self.password.clone()),
        }
    }
}

fn read(file: &Path) -> Result<Password, ConfigError> {
    let unusable = |reason: &str| ConfigError::File {
        option: "password_file",
        path: file.into(),
        reason: reason.to_owned(),
    };
    let text = fs::read_to_string(file).map_err(|error| unusable(&error.to_string()))?;
    // An editor ends the line.
    let line = text.strip_suffix('\n').unwrap_or(&text);
    match line.strip_suffix('\r').unwrap_or(line) {
        "" => Err(unusable("it is empty")),
        line if line.contains('\n') => Err(unusable("it has more than one line")),
        line => Ok(line.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a configuration has of it.
    #[derive(Default)]
    struct Configured {
        user: Option<String>,
        password: Option<Password>,
        password_file: Option<PathBuf>,
    }

    impl Configured {
        fn user(mut self) -> Self {
            self.user = Some("app".to_owned());
            self
        }

        fn password(mut self) -> Self {
            self.password = Some(Password::from("x"));
            self
        }

        fn file(mut self, file: &Path) -> Self {
            self.password_file = Some(file.to_owned());
            self
        }

        fn login(&self) -> Login<'_> {
            Login { user: &self.user, password: &self.password, password_file: &self.password_file }
        }
    }

    fn nothing() -> Configured {
        Configured::default()
    }

    #[test]
    fn a_password_is_the_only_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            nothing().file(&file).login().read()
        };
        for text in ["a b\u{e4}", "a b\u{e4}\n", "a b\u{e4}\r\n"] {
            assert_eq!(read(text), Ok(Some("a b\u{e4}".into())), "{text:?}");
        }
        for (text, reason) in [("", "empty"), ("\n", "empty"), ("secret\nsecret\n", "more than one line")] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("secret"), "{text:?}: {error}");
        }
        fs::remove_file(&file).unwrap();
        let error = nothing().file(&file).login().read().unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
    }

    #[test]
    fn a_user_has_one_password_and_a_password_may_need_a_user() {
        let file = Path::new("password");
        assert_eq!(nothing().user().password().login().validate_with_user(), Ok(()));
        assert_eq!(nothing().user().file(file).login().validate_with_user(), Ok(()));
        assert_eq!(nothing().login().validate_with_user(), Ok(()));
        for alone in [nothing().password(), nothing().file(file)] {
            assert_eq!(alone.login().validate(), Ok(()));
            let refused = alone.login().validate_with_user();
            assert!(matches!(refused, Err(ConfigError::OnlyTogether { missing: "user", .. })), "{refused:?}");
        }
        let refused = nothing().user().login().validate();
        assert!(matches!(refused, Err(ConfigError::OnlyTogether { missing: "password", .. })), "{refused:?}");
        let refused = nothing().user().password().file(file).login().validate();
        assert!(matches!(refused, Err(ConfigError::Setting { option: "password_file", .. })), "{refused:?}");
    }
}
