//! Only the etcd feature needs `protoc`, the compiler of Protocol Buffers: everything else is built without it.

use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// One test for all: the commands share what they build.
#[test]
fn nothing_but_the_etcd_feature_needs_protoc() {
    let path = path_without("protoc");
    let features: Vec<_> = features().into_iter().filter(|feature| feature != "etcd").collect();
    assert!(features.iter().any(|feature| feature == "redis"), "{features:?}");
    // All at once: none takes away what another one needs.
    let facade = ["build", "--package", "distlock", "--features", &features.join(",")].map(str::to_owned);
    for command in [first_command_of_the_readme(), vec!["build".to_owned()], facade.to_vec()] {
        let output = cargo(&path).args(&command).output().expect("cargo can be started");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo {} without protoc:\n{errors}", command.join(" "));
    }
}

/// Cargo, with a target folder in which nothing was ever built with `protoc`: what was would not be built again.
fn cargo(path: &Path) -> Command {
    let cargo = env::var_os("CARGO").expect("cargo runs this test and says where it is");
    let mut command = Command::new(cargo);
    command.current_dir(root()).env("PATH", path).env_remove("PROTOC");
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("without-protoc"));
    // Only about time: nobody debugs what comes of it, or waits for it.
    command.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
    command.args(["--config", "profile.dev.package.lock-conformance.opt-level=0"]);
    command
}

/// A folder with everything that the PATH has, but for this program.
fn path_without(program: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("path-without-{program}"));
    if let Err(error) = fs::remove_dir_all(&folder) {
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{}: {error}", folder.display());
    }
    fs::create_dir_all(&folder).unwrap();
    let path = env::var_os("PATH").expect("there is a PATH");
    for file in env::split_paths(&path).filter_map(|folder| fs::read_dir(folder).ok()).flatten() {
        let file = file.unwrap();
        // The first of several with one name is the one that counts.
        if file.file_name() != program && !folder.join(file.file_name()).exists() {
            let linked = symlink(file.path(), folder.join(file.file_name()));
            assert!(linked.is_ok() || folder.join(file.file_name()).is_symlink(), "{linked:?}");
        }
    }
    let found = Command::new(program).env("PATH", &folder).arg("--version").output();
    assert!(found.is_err(), "`{program}` is still found");
    folder
}

/// What follows `cargo` in it.
fn first_command_of_the_readme() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = readme.split("```sh\n").nth(1).expect("the README has commands");
    let command = block.lines().next().expect("there is a first one");
    let command = command.split('#').next().expect("a text has a beginning");
    let mut words = command.split_whitespace().map(str::to_owned);
    assert_eq!(words.next().as_deref(), Some("cargo"), "{command}");
    words.collect()
}

/// The features of the facade.
fn features() -> Vec<String> {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let section = manifest.split("[features]\n").nth(1).expect("the facade has features");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "default").collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
