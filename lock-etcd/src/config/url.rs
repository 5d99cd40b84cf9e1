//! Reads an [`EtcdConfig`] from a URL. No error repeats the URL: it may contain a password.
//!
//! By hand, because a URL has one host, and a cluster several.

use std::{collections::BTreeSet, time::Duration};

use lock_core::settings::duration;
use percent_encoding::percent_decode_str;

use super::{ConfigError, EtcdConfig};

/// The parameters that there are.
pub(super) const PARAMETERS: [&str; 6] =
    ["command_timeout", "connect_timeout", "heartbeat", "ca", "cert", "key"];

pub(super) fn read(text: &str) -> Result<EtcdConfig, ConfigError> {
    let (scheme, rest) = text.split_once("://").ok_or(ConfigError::Url)?;
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "etcd" => false,
        "etcds" => true,
        // What is no scheme may be half of a password.
        other if other.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) => {
            return Err(ConfigError::Scheme { scheme: other.into() });
        }
        _ => return Err(ConfigError::Url),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if rest.contains('@') {
        return Err(ConfigError::StrayAt);
    }
    if rest.contains('#') {
        return Err(ConfigError::Fragment);
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut config = EtcdConfig { tls, ..EtcdConfig::default() };
    let hosts = match authority.rsplit_once('@') {
        None => authority,
        Some((who, hosts)) => {
            let (user, password) = who.split_once(':').map_or((who, None), |(user, p)| (user, Some(p)));
            config.user = Some(decoded("user", user)?).filter(|user| !user.is_empty());
            config.password =
                password.map(|password| decoded("password", password)).transpose()?.map(Into::into);
            hosts
        }
    };
    config.endpoints =
        hosts.split(',').map(|host| decoded("host", host)?.parse()).collect::<Result<_, _>>()?;
    let path = decoded("path", path.strip_prefix('/').unwrap_or(path))?;
    if !path.is_empty() {
        config.prefix = if path.ends_with('/') { path } else { path + "/" };
    }
    parameters(&mut config, query)?;
    Ok(config)
}

fn decoded(part: &'static str, text: &str) -> Result<String, ConfigError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| ConfigError::Encoding { part })?;
    Ok(text.into_owned())
}

fn parameters(config: &mut EtcdConfig, query: &str) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (parameter, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !seen.insert(parameter) {
            return Err(ConfigError::RepeatedParameter { parameter: parameter.into() });
        }
        let value = decoded("query", value)?;
        match parameter {
            "command_timeout" => config.command_timeout = read_duration("command_timeout", &value)?,
            "connect_timeout" => config.connect_timeout = read_duration("connect_timeout", &value)?,
            "heartbeat" => config.heartbeat = read_duration("heartbeat", &value)?,
            "ca" => config.ca = Some(value.into()),
            "cert" => config.cert = Some(value.into()),
            "key" => config.key = Some(value.into()),
            _ => return Err(ConfigError::UnknownParameter { parameter: parameter.into() }),
        }
    }
    Ok(())
}

fn read_duration(option: &'static str, given: &str) -> Result<Duration, ConfigError> {
    duration::parse(given).ok_or_else(|| ConfigError::UnreadableDuration { option, given: given.to_owned() })
}
