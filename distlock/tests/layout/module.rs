//! [`Module`]: the declarations of a module, and the names that it uses.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{closing, is_word};

/// The names from the root of the crate to a module, or the segments of a path.
pub(crate) type Segments = Vec<String>;

/// A module, in a file of its own or within another module's file.
pub(crate) struct Module {
    pub(crate) file: String,
    pub(crate) children: BTreeSet<String>,
    uses: Vec<Use>,
    /// The paths in its code.
    paths: Vec<Segments>,
    /// The words in its code.
    words: BTreeSet<String>,
}

/// A name, from a `use`.
struct Use {
    name: String,
    path: Segments,
    is_export: bool,
}

impl Module {
    /// Reads a module, and the modules within its braces.
    pub(crate) fn read(at: Segments, file: &str, tokens: &[&str], into: &mut BTreeMap<Segments, Self>) {
        let mut module = Self {
            file: file.to_owned(),
            children: BTreeSet::new(),
            uses: Vec::new(),
            paths: Vec::new(),
            words: BTreeSet::new(),
        };
        let mut next = 0;
        while next < tokens.len() {
            match &tokens[next..] {
                ["mod", name, ";", ..] => {
                    module.children.insert((*name).to_owned());
                    next += 3;
                }
                ["mod", name, "{", ..] => {
                    module.children.insert((*name).to_owned());
                    let end = closing(tokens, next + 2);
                    Self::read(child(&at, name), file, &tokens[next + 3..end], into);
                    next = end + 1;
                }
                // `impl Trait + use<>` imports nothing.
                ["use", behind, ..] if *behind != "<" => {
                    let is_export = next > 0 && ["pub", ")"].contains(&tokens[next - 1]);
                    next = module.read_use(tokens, next + 1, &[], is_export);
                }
                [word, ..] if is_word(word) => next = module.read_path(tokens, next),
                _ => next += 1,
            }
        }
        into.insert(at, module);
    }

    /// The path that a name stands for in this module.
    pub(crate) fn import(&self, name: &str) -> Option<&Segments> {
        self.uses.iter().find(|import| import.name == name && name != "*").map(|import| &import.path)
    }

    /// The paths of all items that this module needs.
    pub(crate) fn needs(&self) -> impl Iterator<Item = &Segments> {
        let needed = self.uses.iter().filter(move |import| self.needs_itself(import));
        needed.map(|import| &import.path).chain(&self.paths)
    }

    /// Whether the module itself uses the name, and does not only re-export it.
    fn needs_itself(&self, import: &Use) -> bool {
        !import.is_export || import.name == "*" || self.words.contains(&import.name)
    }

    /// Reads one path of a `use`, including its braces, and returns where the next one begins.
    fn read_use(&mut self, tokens: &[&str], mut next: usize, prefix: &[String], is_export: bool) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match &tokens[next..] {
                [] => return next,
                ["::", ..] => next += 1,
                ["{", ..] => {
                    next += 1;
                    while tokens.get(next).is_some_and(|token| *token != "}") {
                        next = self.read_use(tokens, next, &path, is_export);
                        next += usize::from(tokens.get(next) == Some(&","));
                    }
                    return next + 1;
                }
                [segment, "::", ..] => {
                    path.push((*segment).to_owned());
                    next += 2;
                }
                [segment, behind @ ..] => {
                    if *segment != "self" || path.is_empty() {
                        path.push((*segment).to_owned());
                    }
                    let alias = if let ["as", alias, ..] = behind { Some(*alias) } else { None };
                    let name = alias.or(path.last().map(String::as_str)).unwrap_or_default().to_owned();
                    self.uses.push(Use { name, path, is_export });
                    return next + if alias.is_some() { 3 } else { 1 };
                }
            }
        }
    }

    /// Reads a path in code, and returns where it ends.
    fn read_path(&mut self, tokens: &[&str], start: usize) -> usize {
        let mut path = vec![tokens[start].to_owned()];
        let mut end = start + 1;
        while let ["::", segment, ..] = &tokens[end..]
            && is_word(segment)
        {
            path.push((*segment).to_owned());
            end += 2;
        }
        self.words.extend(path.iter().cloned());
        // The rest of `<T as Trait>::` or `$crate::`, and the path in `pub(in crate::cases)`.
        let is_no_path = matches!(&tokens[..start], [.., "::" | "$" | "."] | [.., "(", "in"]);
        if path.len() > 1 && !is_no_path {
            self.paths.push(path);
        }
        end
    }
}

pub(crate) fn child(of: &[String], name: &str) -> Segments {
    [of, &[name.to_owned()]].concat()
}
