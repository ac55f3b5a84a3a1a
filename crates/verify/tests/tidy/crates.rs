//! Which room may use which, what stays out of the pure ones, banned packages.

use crate::{files, none, root};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// One room: which of our crates it uses, and which more its tests may use.
pub struct Room {
    pub name: &'static str,
    uses: &'static [&'static str],
    tests_may_use: &'static [&'static str],
}

/// Every edge between our crates. A new one is a decision: change ARCHITECTURE.md with it.
pub const ROOMS: &[Room] = &[
    Room { name: "core", uses: &[], tests_may_use: &[] },
    Room { name: "expr", uses: &[], tests_may_use: &[] },
    Room { name: "flow", uses: &["core", "expr"], tests_may_use: &[] },
    Room { name: "store", uses: &["core"], tests_may_use: &[] },
    Room { name: "store-sqlite", uses: &["core", "store"], tests_may_use: &[] },
    Room { name: "store-postgres", uses: &["core", "store"], tests_may_use: &["store-postgres", "store-sqlite"] },
    Room { name: "tasks", uses: &["core"], tests_may_use: &[] },
    Room { name: "engine", uses: &["core", "expr", "flow", "store", "tasks"], tests_may_use: &["store-sqlite"] },
    Room { name: "server", uses: &["core", "engine", "flow", "store"], tests_may_use: &["store-sqlite", "tasks"] },
    Room {
        name: "semel",
        uses: &["core", "engine", "flow", "server", "store", "store-postgres", "store-sqlite", "tasks"],
        tests_may_use: &[],
    },
];

/// Shown to nobody, so it may see everything; nobody may see it.
pub const PROOF: &str = "verify";

/// Packages that stay out of a room, and out of every room it uses.
const KEPT_OUT: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "tokio",
            "tokio-util",
            "futures-util",
            "async-trait",
            "rusqlite",
            "reqwest",
            "hyper",
            "axum",
            "rand",
            "tracing",
        ],
    ),
    (
        "expr",
        &[
            "tokio",
            "tokio-util",
            "futures-util",
            "async-trait",
            "rusqlite",
            "reqwest",
            "hyper",
            "axum",
            "rand",
            "tracing",
        ],
    ),
    (
        "flow",
        &[
            "tokio",
            "tokio-util",
            "futures-util",
            "async-trait",
            "rusqlite",
            "reqwest",
            "hyper",
            "axum",
            "rand",
            "tracing",
        ],
    ),
    ("store", &["tokio", "rusqlite", "tokio-postgres", "reqwest", "hyper", "axum", "rand"]),
    ("store-sqlite", &["tokio", "reqwest", "hyper", "axum"]),
    ("store-postgres", &["rusqlite", "reqwest", "hyper", "axum"]),
    ("tasks", &["axum", "rusqlite", "tokio-postgres"]),
    ("engine", &["axum", "hyper", "rusqlite", "tokio-postgres"]),
    ("server", &["rusqlite", "tokio-postgres"]),
];

/// Not even through a dependency: unsound, unmaintained, or a second C toolchain.
const BANNED_PACKAGES: &[&str] = &["serde_yaml", "serde_yml", "libyml", "openssl-sys", "native-tls", "aws-lc-sys"];

struct Package {
    /// Ours without the prefix `semel-`.
    name: String,
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
    /// (dependency, feature of it that is asked for).
    features: Vec<(String, String)>,
    /// The same, of dependencies that only tests have.
    test_features: Vec<(String, String)>,
    /// Its own features, with what each switches on.
    own_features: Vec<(String, Vec<String>)>,
}

fn short(name: &str) -> String {
    name.strip_prefix("semel-").unwrap_or(name).to_owned()
}

fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("packages").iter().map(package).collect()
}

fn package(json: &Json) -> Package {
    let mut package = Package {
        name: short(json["name"].as_str().expect("a name")),
        uses: BTreeSet::new(),
        tests_use: BTreeSet::new(),
        features: vec![],
        test_features: vec![],
        own_features: vec![],
    };
    for (name, on) in json["features"].as_object().into_iter().flatten() {
        let on = on.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned);
        package.own_features.push((name.clone(), on.collect()));
    }
    for dependency in json["dependencies"].as_array().expect("dependencies") {
        let name = short(dependency["name"].as_str().expect("a name"));
        let is_test = dependency["kind"].as_str() == Some("dev");
        for feature in dependency["features"].as_array().into_iter().flatten() {
            let asked = if is_test { &mut package.test_features } else { &mut package.features };
            asked.push((name.clone(), feature.as_str().unwrap_or_default().to_owned()));
        }
        match dependency["kind"].as_str() {
            Some("dev") => package.tests_use.insert(name),
            _ => package.uses.insert(name),
        };
    }
    package
}

fn edge_findings(packages: &[Package]) -> Vec<String> {
    let ours: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in packages.iter().filter(|p| p.name != PROOF) {
        let Some(room) = ROOMS.iter().find(|room| room.name == package.name) else {
            findings.push(format!("`{}` has no row in ROOMS", package.name));
            continue;
        };
        for used in package.uses.iter().filter(|name| ours.contains(name.as_str())) {
            if !room.uses.contains(&used.as_str()) {
                findings.push(format!("`{}` must not use `{used}`", room.name));
            }
        }
        for used in package.tests_use.iter().filter(|name| ours.contains(name.as_str())) {
            if !room.uses.contains(&used.as_str()) && !room.tests_may_use.contains(&used.as_str()) {
                findings.push(format!("tests of `{}` must not use `{used}`", room.name));
            }
        }
        for named in room.uses.iter().filter(|named| !package.uses.contains(**named)) {
            findings.push(format!("`{}` no longer uses `{named}`: take it out of ROOMS", room.name));
        }
    }
    findings.extend(
        ROOMS
            .iter()
            .filter(|room| !ours.contains(room.name))
            .map(|room| format!("`{}` is in ROOMS and nowhere else", room.name)),
    );
    findings
}

#[test]
fn dependencies_between_our_crates_point_one_way() {
    none(edge_findings(&packages()), "The rule is in ARCHITECTURE.md, \"The rooms\"; the table is ROOMS in this file.");
}

/// What a room uses, directly or through our other rooms, by the name of who brings it in.
fn reach<'p>(packages: &'p [Package], room: &str, seen: &mut BTreeMap<&'p str, &'p str>) {
    let Some(package) = packages.iter().find(|p| p.name == room) else { return };
    for used in &package.uses {
        if seen.insert(used, &package.name).is_none() {
            reach(packages, used, seen);
        }
    }
}

fn kept_out_findings(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for (room, kept_out) in KEPT_OUT {
        let mut seen = BTreeMap::new();
        reach(packages, room, &mut seen);
        for (used, by) in seen.iter().filter(|(used, _)| kept_out.contains(used)) {
            findings.push(format!("`{used}` must stay out of `{room}`; `{by}` brings it in"));
        }
    }
    findings
}

#[test]
fn pure_rooms_stay_pure_and_the_engine_sees_no_server_and_no_database() {
    none(kept_out_findings(&packages()), "Return it as data and let an outer room do it.");
}

/// (name, names of what it depends on) of every package in the lock file, tests' included.
fn locked(lock: &str) -> Vec<(String, Vec<String>)> {
    let quoted = |line: &str| line.split('"').nth(1).map(|text| text.split(' ').next().unwrap_or_default().to_owned());
    let mut packages: Vec<(String, Vec<String>)> = Vec::new();
    for line in lock.lines() {
        if line.starts_with("name = ") {
            packages.push((quoted(line).unwrap_or_default(), vec![]));
        } else if line.starts_with(" \"")
            && let (Some((_, uses)), Some(name)) = (packages.last_mut(), quoted(line))
        {
            uses.push(name);
        }
    }
    packages
}

fn banned_findings(lock: &str) -> Vec<String> {
    let packages = locked(lock);
    let users = |banned: &str| -> Vec<String> {
        packages.iter().filter(|(_, uses)| uses.iter().any(|u| u == banned)).map(|(name, _)| name.clone()).collect()
    };
    let mut findings: Vec<String> = packages
        .iter()
        .filter(|(name, _)| BANNED_PACKAGES.contains(&name.as_str()))
        .map(|(name, _)| format!("`{name}` is banned; used by {}", users(name).join(", ")))
        .collect();
    // Whatever the core's own dependencies bring along must be as quiet as the core.
    let mut open = vec!["semel-core".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if ["tokio", "rusqlite", "reqwest", "hyper", "mio"].contains(&name.as_str()) {
            findings.push(format!("`semel-core` reaches `{name}`"));
        }
        if seen.insert(name.clone()) {
            open.extend(packages.iter().filter(|(n, _)| *n == name).flat_map(|(_, uses)| uses.clone()));
        }
    }
    findings
}

#[test]
fn no_banned_package_is_in_the_lock_file() {
    none(banned_findings(&files()["Cargo.lock"]), "Choose another package, or features that leave it out.");
}

#[test]
fn numbers_are_not_of_arbitrary_precision() {
    let asked: Vec<String> = packages()
        .into_iter()
        .flat_map(|p| {
            let asked = p.features.into_iter().chain(p.test_features);
            asked.map(move |(name, feature)| (p.name.clone(), name, feature))
        })
        .filter(|(_, name, feature)| name == "serde_json" && feature == "arbitrary_precision")
        .map(|(package, _, _)| format!("`{package}` asks for it"))
        .collect();
    none(asked, "Fingerprints and untagged numbers depend on plain ones.");
    // Any package may switch a feature on for all; with this one the text would be a number.
    assert!(
        serde_json::from_str::<Json>("1e400").is_err(),
        "some dependency switches serde_json/arbitrary_precision on"
    );
}

/// Features of test builds: who may have them. Nobody may ask for one in a dependency or by default, so that no
/// build has them but one that names them.
const TEST_FEATURES: &[(&str, &[&str])] = &[
    ("failpoints", &["store", "semel"]),
    ("planted", &["core", PROOF]),
    ("sim", &["engine"]),
    ("testing", &["store-postgres"]),
];
/// It only starts a server. Dependencies of tests are in no build that is shipped, so they may ask for it.
const TESTS_ASK_FOR: &str = "testing";
/// The proof runs the engine by hand and starts databases. These only show what is there and start a server, so builds
/// that share them may have them.
const PROOF_ASKS_FOR: &[&str] = &["sim", "testing"];

fn test_feature_findings(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for package in packages {
        for (feature, owners) in TEST_FEATURES {
            if package.name == PROOF && PROOF_ASKS_FOR.contains(feature) {
                continue;
            }
            let by_tests = package.test_features.iter().filter(|_| *feature != TESTS_ASK_FOR);
            for (dependency, _) in package.features.iter().chain(by_tests).filter(|(_, asked)| asked == feature) {
                findings.push(format!("`{}` always asks for `{feature}` of `{dependency}`", package.name));
            }
            for (own, on) in &package.own_features {
                let named = own == feature;
                let switches = on.iter().any(|on| on.rsplit('/').next() == Some(*feature));
                if (named || switches) && !(named && owners.contains(&package.name.as_str())) {
                    findings.push(format!("`{own}` of `{}` must not lead to `{feature}`", package.name));
                }
            }
        }
    }
    findings
}

#[test]
fn features_of_test_builds_are_in_no_other_build() {
    none(test_feature_findings(&packages()), "Only a test names such a feature, on the command line.");
}

/// Each check finds what it is for.
mod checks {
    use super::*;
    use crate::one;

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The real table as packages, so that one thing can be changed.
    fn tabled() -> Vec<Package> {
        let proof = Package {
            name: PROOF.to_owned(),
            uses: BTreeSet::new(),
            tests_use: BTreeSet::new(),
            features: vec![],
            test_features: vec![],
            own_features: vec![],
        };
        let rooms = ROOMS.iter().map(|r| Package {
            name: r.name.to_owned(),
            uses: names(r.uses),
            tests_use: BTreeSet::new(),
            features: vec![],
            test_features: vec![],
            own_features: vec![],
        });
        rooms.chain([proof]).collect()
    }

    fn change(name: &str, uses: &str) -> Vec<Package> {
        let mut packages = tabled();
        for package in packages.iter_mut().filter(|p| p.name == name) {
            package.uses.insert(uses.to_owned());
        }
        packages
    }

    #[test]
    fn edges() {
        assert_eq!(edge_findings(&tabled()), Vec::<String>::new());
        one(edge_findings(&change("core", "store")), "`core` must not use `store`");
        one(edge_findings(&change("engine", "server")), "`engine` must not use `server`");
        one(edge_findings(&change("semel", PROOF)), "`semel` must not use `verify`");
        let mut tests = tabled();
        tests[0].tests_use = names(&["engine"]);
        one(edge_findings(&tests), "tests of `core` must not use `engine`");
        let mut fewer = tabled();
        fewer[2].uses = names(&["core"]);
        one(edge_findings(&fewer), "no longer uses `expr`");
        let mut more = tabled();
        more.push(Package {
            name: "console".to_owned(),
            uses: BTreeSet::new(),
            tests_use: BTreeSet::new(),
            features: vec![],
            test_features: vec![],
            own_features: vec![],
        });
        one(edge_findings(&more), "`console` has no row");
    }

    #[test]
    fn test_features() {
        let with = |name: &str, on: &str| {
            let mut packages = tabled();
            packages[0].own_features = vec![(name.to_owned(), vec![on.to_owned()])];
            packages
        };
        assert_eq!(test_feature_findings(&tabled()), Vec::<String>::new());
        one(test_feature_findings(&with("default", "failpoints")), "must not lead to `failpoints`");
        one(test_feature_findings(&with("fast", "semel-store/failpoints")), "`fast` of `core`");
        one(test_feature_findings(&with("failpoints", "x")), "`failpoints` of `core`");
        let mut asks = tabled();
        asks[0].features = vec![("store".to_owned(), "failpoints".to_owned())];
        one(test_feature_findings(&asks), "always asks for `failpoints`");
        asks[0].features = vec![("store-postgres".to_owned(), "testing".to_owned())];
        one(test_feature_findings(&asks), "always asks for `testing`");
        // Only tests may ask for a server, and not even they for points to die at.
        asks[0].test_features = std::mem::take(&mut asks[0].features);
        assert_eq!(test_feature_findings(&asks), Vec::<String>::new());
        asks[0].test_features = vec![("store".to_owned(), "failpoints".to_owned())];
        one(test_feature_findings(&asks), "always asks for `failpoints`");
    }

    #[test]
    fn packages_kept_out() {
        assert_eq!(kept_out_findings(&tabled()), Vec::<String>::new());
        one(kept_out_findings(&change("engine", "axum")), "`axum` must stay out of `engine`");
        // What comes in further down is found at every room above.
        let below = kept_out_findings(&change("core", "tokio"));
        assert!(
            below.iter().any(|f| f.contains("out of `core`"))
                && below.iter().any(|f| f.contains("out of `flow`; `core` brings it in")),
            "{below:?}"
        );
    }

    #[test]
    fn banned_packages() {
        let lock =
            "[[package]]\nname = \"semel-core\"\ndependencies = [\n \"jiff\",\n]\n\n[[package]]\nname = \"jiff\"\n";
        assert_eq!(banned_findings(lock), Vec::<String>::new());
        let banned = lock.replace(
            "name = \"jiff\"\n",
            "name = \"jiff\"\ndependencies = [\n \"openssl-sys 0.9.1\",\n]\n\n[[package]]\nname = \"openssl-sys\"\n",
        );
        one(banned_findings(&banned), "`openssl-sys` is banned; used by jiff");
        let noisy = lock.replace("name = \"jiff\"\n", "name = \"jiff\"\ndependencies = [\n \"tokio\",\n]\n");
        one(banned_findings(&noisy), "`semel-core` reaches `tokio`");
    }
}
