//! [`Code`]: the tokens of a file, without comments, literals, tests and macros.

/// The code of a file.
pub(crate) struct Code<'a> {
    /// Words, `::`, and single other characters.
    pub(crate) tokens: Vec<&'a str>,
    /// The child modules that exist only in tests.
    pub(crate) test_modules: Vec<&'a str>,
}

impl<'a> Code<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let all = tokens(text);
        let mut code = Self { tokens: Vec::new(), test_modules: Vec::new() };
        let mut at = 0;
        while let Some(token) = all.get(at) {
            let rest = &all[at..];
            if is_only_for_tests(rest) {
                let end = item_end(&all, at);
                if let [.., "mod", name, ";"] = &all[at..end] {
                    code.test_modules.push(*name);
                }
                at = end;
            } else if rest.starts_with(&["macro_rules", "!"]) {
                at = closing(&all, at + 3) + 1;
            } else {
                code.tokens.push(*token);
                at += 1;
            }
        }
        code
    }
}

/// Where the bracket that opens there is closed.
pub(crate) fn closing(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return at,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

pub(crate) fn is_word(token: &str) -> bool {
    token.starts_with(is_part_of_word)
}

fn is_part_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn tokens(text: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| string(rest)).or_else(|| quoted(rest));
        let length = skipped.unwrap_or_else(|| token_length(rest, first));
        if skipped.is_none() && !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

fn token_length(text: &str, first: char) -> usize {
    if text.starts_with("::") {
        return 2;
    }
    let word = text.find(|c: char| !is_part_of_word(c)).unwrap_or(text.len());
    if word == 0 { first.len_utf8() } else { word }
}

fn comment(text: &str) -> Option<usize> {
    let end = if text.starts_with("//") {
        text.find('\n')
    } else if text.starts_with("/*") {
        text.find("*/").map(|end| end + 2)
    } else {
        return None;
    };
    Some(end.unwrap_or(text.len()))
}

/// The length of the string that begins here, raw or not.
fn string(text: &str) -> Option<usize> {
    let prefix = text.find(|c: char| !matches!(c, 'b' | 'c' | 'r'))?;
    let is_raw = text[..prefix].contains('r');
    let quote = text[prefix..].trim_start_matches(|c: char| is_raw && c == '#');
    let start = text.len() - quote.len() + 1;
    let body = quote.strip_prefix('"')?;
    let hashes = "#".repeat(start - 1 - prefix);
    let mut escaped = false;
    let end = if is_raw {
        body.find(&format!("\"{hashes}"))
    } else {
        body.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })
    };
    Some(end.map_or(text.len(), |end| start + end + 1 + hashes.len()))
}

/// The length of the character or the lifetime that begins here.
fn quoted(text: &str) -> Option<usize> {
    let body = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let start = text.len() - body.len();
    let mut characters = body.chars();
    let first = characters.next()?;
    if first == '\\' {
        // The escaped character may be a quote.
        return body.get(2..)?.find('\'').map(|end| start + 2 + end + 1);
    }
    if characters.next() == Some('\'') {
        return Some(start + first.len_utf8() + 1);
    }
    Some(start + body.find(|c: char| !is_part_of_word(c)).unwrap_or(body.len()))
}

/// Whether an attribute begins here that includes the next item only in tests.
fn is_only_for_tests(rest: &[&str]) -> bool {
    if !rest.starts_with(&["#", "[", "cfg", "("]) {
        return false;
    }
    let condition = &rest[..closing(rest, 1)];
    condition.contains(&"test") && !condition.contains(&"any") && !condition.contains(&"not")
}

/// Where the item that begins here ends. It begins with its attributes.
fn item_end(tokens: &[&str], mut at: usize) -> usize {
    while tokens.get(at) == Some(&"#") {
        at = closing(tokens, at + 1) + 1;
    }
    // After `pub(crate)` at the latest.
    let is_use =
        tokens.iter().skip(at).take_while(|token| **token != "{").take(5).any(|token| *token == "use");
    while let Some(token) = tokens.get(at) {
        match *token {
            ";" | "," => return at + 1,
            "{" if !is_use => return (closing(tokens, at) + 1).min(tokens.len()),
            "(" | "[" | "{" => at = closing(tokens, at),
            ")" | "]" | "}" => return at,
            _ => {}
        }
        at += 1;
    }
    tokens.len()
}
