//! [`Crate`]: the files of a crate, what they import, and the circles.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
};

use super::{
    module::{Module, Segments, child},
    tokens::Code,
};

/// How many re-exports are followed for one name. This ends a circle of re-exports.
const LONGEST: usize = 32;

/// The files of a crate that are not tests.
pub(crate) struct Crate {
    modules: BTreeMap<Segments, Module>,
}

impl Crate {
    /// A crate with these files: the path of each below `src`, and its text.
    pub(crate) fn new(files: &[(String, String)]) -> Self {
        let read: Vec<_> =
            files.iter().map(|(file, text)| (module_of(file), file, Code::read(text))).collect();
        let tests: Vec<Segments> = read
            .iter()
            .flat_map(|(at, _, code)| code.test_modules.iter().map(move |name| child(at, name)))
            .collect();
        let mut modules = BTreeMap::new();
        for (at, file, code) in read {
            if !tests.iter().any(|test| at.starts_with(test)) {
                Module::read(at, file, &code.tokens, &mut modules);
            }
        }
        Self { modules }
    }

    /// Each circle, as `a.rs → b.rs → a.rs`.
    pub(crate) fn circles(&self) -> BTreeSet<String> {
        let imports = self.imports();
        imports.keys().filter_map(|file| circle_through(&imports, file)).map(written).collect()
    }

    /// Which files each file imports.
    pub(crate) fn imports(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, module) in &self.modules {
            let found = module.needs().filter_map(|path| self.resolve(at, path, LONGEST));
            let others = found.filter(|file| *file != module.file);
            imports.entry(&module.file).or_default().extend(others);
        }
        imports
    }

    /// The file that defines the item of a path in a module. `None` if another crate defines it.
    fn resolve(&self, at: &[String], path: &[String], steps: usize) -> Option<&str> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        let module = self.modules.get(at)?;
        match first.as_str() {
            "crate" => self.descend(&[], rest, steps),
            "self" => self.descend(at, rest, steps),
            "super" => {
                let (_, parent) = at.split_last()?;
                let is_above = rest.first().is_some_and(|next| next == "super");
                if is_above { self.resolve(parent, rest, steps) } else { self.descend(parent, rest, steps) }
            }
            name if module.children.contains(name) => self.descend(&child(at, name), rest, steps),
            name => {
                let import = module.import(name).filter(|import| import[0] != name)?;
                self.resolve(at, &[import.as_slice(), rest].concat(), steps)
            }
        }
    }

    /// The same for a path that begins in that module.
    fn descend(&self, at: &[String], path: &[String], steps: usize) -> Option<&str> {
        let module = self.modules.get(at)?;
        let Some((first, rest)) = path.split_first() else { return Some(&module.file) };
        let import = module.import(first);
        // A module and a function in it may have the same name. A path that ends with this name means the function.
        if module.children.contains(first) && (import.is_none() || !rest.is_empty()) {
            return self.descend(&child(at, first), rest, steps);
        }
        match import {
            Some(import) => self.resolve(at, &[import.as_slice(), rest].concat(), steps),
            None => Some(&module.file),
        }
    }
}

/// The names that lead to the module of a file.
fn module_of(file: &str) -> Segments {
    let path = Path::new(file).with_extension("");
    let mut names: Segments = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
    names
}

/// The shortest way from a file back to itself.
fn circle_through<'a>(
    imports: &BTreeMap<&'a str, BTreeSet<&'a str>>,
    start: &'a str,
) -> Option<Vec<&'a str>> {
    let (mut ways, mut seen) = (VecDeque::from([vec![start]]), BTreeSet::new());
    while let Some(way) = ways.pop_front() {
        for next in imports.get(way.last()?).into_iter().flatten() {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push_back([way.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

/// A circle as text, which is the same whichever of its files the search began with.
fn written(mut circle: Vec<&str>) -> String {
    let first = circle.iter().enumerate().min_by_key(|(_, file)| **file).map_or(0, |(at, _)| at);
    circle.rotate_left(first);
    circle.push(circle[0]);
    circle.join(" → ")
}
