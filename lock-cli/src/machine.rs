//! `distlock setup-machine`, and the file that it prepares: the locks of this machine for all users of a group.

use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
};

use distlock::escape_unprintable;
use nix::{
    fcntl::OFlag,
    unistd::{Group, geteuid},
};

use crate::{exit::Exit, failure::Failure, print};

/// The URL of the file.
pub(crate) const URL: &str = "sqlite:machine";

/// The path of the file. Only root can create it there.
#[cfg(all(feature = "sqlite", target_os = "linux"))]
const FILE: Option<&str> = Some(distlock::sqlite::SqliteConfig::MACHINE_FILE);
#[cfg(not(all(feature = "sqlite", target_os = "linux")))]
const FILE: Option<&str> = None;

/// With setgid (2): new files in the folder get its group. Other users have no access.
const SHARED_FOLDER: u32 = 0o2770;
const SHARED_FILE: u32 = 0o660;

/// The arguments of `setup-machine`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetupArgs {
    /// The group whose users share the locks of this machine, and can take each other's
    #[arg(long, value_name = "NAME")]
    group: String,
}

/// Whether a URL names the file.
pub(crate) fn is_machine_url(url: &str) -> bool {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    scheme.eq_ignore_ascii_case("sqlite") && rest.split('?').next() == Some("machine")
}

/// Checks that the file can be used.
///
/// # Errors
/// If it does not exist, or this user has no access.
pub(crate) fn check() -> Result<(), Failure> {
    // A build without SQLite says so when it connects.
    let Some(file) = FILE.map(Path::new) else { return Ok(()) };
    match fs::metadata(file) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let failure = Failure::new(Exit::USAGE, "this machine has no locks for all its users yet");
            Err(failure.hint("sudo distlock setup-machine --group NAME"))
        }
        Err(error) => {
            let message = format!("{} cannot be used", file.display());
            let failure = Failure::new(Exit::STORE, message).because(&error);
            Err(failure.hint(format!("membership of its group: ls -ld {}", folder_of(file).display())))
        }
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

pub(crate) fn setup(args: &SetupArgs) -> Result<Exit, Failure> {
    let Some(file) = FILE.map(Path::new) else {
        let message = "this `distlock` was built without the store of `sqlite:` URLs";
        return Err(Failure::new(Exit::USAGE, message));
    };
    let name = escape_unprintable(&args.group);
    // An error of the group database counts as no such group.
    let Some(group) = Group::from_name(&args.group).ok().flatten() else {
        let failure = Failure::new(Exit::USAGE, format!("there is no group `{name}`"));
        return Err(failure.hint("groupadd, or the name of another one"));
    };
    let folder = folder_of(file);
    prepare(folder, file, group.gid.as_raw()).map_err(|error| {
        let message = format!("{} cannot be prepared", folder.display());
        let failure = Failure::new(Exit::STORE, message).because(&error);
        failure.hint("sudo distlock setup-machine --group NAME")
    })?;
    let file = file.display();
    print::text(&format!(
        "users of group `{name}` share the locks in {file}: distlock --machine run …, and services by {URL}\n"
    ))?;
    Ok(Exit::DONE)
}

/// Creates the folder and the file. Nobody else has access before their modes and groups are set, which is done by descriptor: a path
/// may meanwhile lead elsewhere.
fn prepare(folder: &Path, file: &Path, group: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let as_folder = (OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY).bits();
    let folder = OpenOptions::new().read(true).custom_flags(as_folder).open(folder)?;
    let found = folder.metadata()?;
    if found.uid() != geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    // It was prepared earlier, and may be in use.
    let is_shared = found.mode() & 0o077 != 0;
    if is_shared && found.gid() != group {
        let why = format!("it exists for group {}; remove it while it is not in use", found.gid());
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    if is_shared {
        // Users of the group may write to the folder: what one of them has put there is not given to the group.
        options.create_new(true);
    } else {
        options.create(true).truncate(false);
    }
    let file = match options.open(file) {
        Err(error) if is_shared && error.kind() == ErrorKind::AlreadyExists => return expect_file(file),
        opened => opened?,
    };
    fchown(&file, None, Some(group))?;
    file.set_permissions(Permissions::from_mode(SHARED_FILE))?;
    if is_shared {
        return Ok(());
    }
    fchown(&folder, None, Some(group))?;
    folder.set_permissions(Permissions::from_mode(SHARED_FOLDER))
}

/// Checks that there is a file, and not a link or a folder.
fn expect_file(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_file() {
        return Ok(());
    }
    let why = format!("{} is not a file; remove it", path.display());
    Err(io::Error::new(ErrorKind::AlreadyExists, why))
}

#[cfg(test)]
mod tests {
    use nix::unistd::getegid;

    use super::*;

    #[test]
    fn the_file_of_the_machine_is_known_by_its_url() {
        for url in [URL, "SQLite:machine", "sqlite:machine?command_timeout=1s"] {
            assert!(is_machine_url(url), "{url}");
        }
        for url in ["", "machine", "sqlite:", "sqlite:./machine", "sqlite:machine.db", "redis:machine"] {
            assert!(!is_machine_url(url), "{url}");
        }
    }

    #[test]
    fn setup_gives_folder_and_file_to_the_group_and_may_be_repeated() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("distlock");
        let file = folder.join("locks.db");
        let group = getegid().as_raw();
        let modes = || [&folder, &file].map(|path| fs::metadata(path).unwrap().mode() & 0o7777);
        for _ in 0..2 {
            prepare(&folder, &file, group).unwrap();
            assert_eq!(modes(), [0o2770, 0o660]);
        }
        let error = prepare(&folder, &file, group + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(modes(), [0o2770, 0o660]);
    }

    #[test]
    fn a_file_that_was_removed_is_there_again_after_the_next_setup() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("distlock");
        let file = folder.join("locks.db");
        let group = getegid().as_raw();
        prepare(&folder, &file, group).unwrap();
        fs::remove_file(&file).unwrap();
        prepare(&folder, &file, group).unwrap();
        let modes = [&folder, &file].map(|path| fs::metadata(path).unwrap().mode() & 0o7777);
        assert_eq!(modes, [0o2770, 0o660]);

        // A user of the group may put a link in its place.
        fs::remove_file(&file).unwrap();
        let victim = parent.path().join("victim");
        std::os::unix::fs::symlink(&victim, &file).unwrap();
        assert!(prepare(&folder, &file, group).is_err());
        assert!(!victim.exists(), "the link was followed");
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_or_the_file_is_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let [other, link] = ["other", "link"].map(|name| parent.path().join(name));
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(prepare(&link, &link.join("locks.db"), getegid().as_raw()).is_err());
        let victim = parent.path().join("victim");
        fs::write(&victim, "").unwrap();
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&victim, other.join("locks.db")).unwrap();
        assert!(prepare(&other, &other.join("locks.db"), getegid().as_raw()).is_err());
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o700);
    }
}
