//! Reads a [`RedisConfig`] from a URL. No error repeats the URL: it may contain a password.

use std::{collections::BTreeSet, time::Duration};

use lock_core::settings::duration;
use percent_encoding::percent_decode_str;
use url::Url;

use super::{ConfigError, RedisConfig};

/// The parameters that there are.
pub(super) const PARAMETERS: [&str; 8] =
    ["prefix", "client_name", "command_timeout", "connect_timeout", "heartbeat", "ca", "cert", "key"];

pub(super) fn read(text: &str) -> Result<RedisConfig, ConfigError> {
    // Before anything else: what looks like a path or a query may be half of a password.
    // The parser of URLs passes over these wherever they stand, so that a scheme with one inside is a scheme too.
    let text: String = text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\r')).collect();
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    if authority.find(['/', '?', '#']).is_some_and(|end| authority[end..].contains('@')) {
        return Err(ConfigError::StrayAt);
    }
    let url = Url::parse(&text).map_err(|error| ConfigError::Url { reason: error.to_string() })?;
    let tls = match url.scheme() {
        "redis" => false,
        "rediss" => true,
        scheme => return Err(ConfigError::Scheme { scheme: scheme.into() }),
    };
    if url.fragment().is_some() {
        return Err(ConfigError::Fragment);
    }
    let mut config = RedisConfig { tls, ..RedisConfig::default() };
    config.host = host(&url)?;
    config.port = url.port().unwrap_or(config.port);
    if !url.username().is_empty() {
        config.user = Some(decoded("user", url.username())?);
    }
    if let Some(password) = url.password() {
        config.password = Some(decoded("password", password)?.into());
    }
    config.database = database(url.path())?;
    parameters(&mut config, &url)?;
    Ok(config)
}

fn host(url: &Url) -> Result<String, ConfigError> {
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ConfigError::Host)?;
    // An IPv6 address stands in brackets only where it meets a port.
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    decoded("host", host)
}

fn decoded(part: &'static str, text: &str) -> Result<String, ConfigError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| ConfigError::Encoding { part })?;
    Ok(text.into_owned())
}

fn database(path: &str) -> Result<u32, ConfigError> {
    match path.strip_prefix('/').unwrap_or(path) {
        "" => Ok(0),
        number if number.bytes().all(|b| b.is_ascii_digit()) => {
            number.parse().map_err(|_| ConfigError::Database { given: number.into() })
        }
        other => Err(ConfigError::Database { given: other.into() }),
    }
}

fn parameters(config: &mut RedisConfig, url: &Url) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (parameter, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !seen.insert(parameter) {
            return Err(ConfigError::RepeatedParameter { parameter: parameter.into() });
        }
        let value = decoded("query", value)?;
        match parameter {
            "prefix" => config.prefix = value,
            "client_name" => config.client_name = value,
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
