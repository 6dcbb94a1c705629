//! Scales: how safe a tool is, how much is at stake, how far an agent is let.

/// An ordered set of words that config and records use. Later is more.
#[macro_export]
macro_rules! scale {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All of them, lowest first.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The name config and records use.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Reads a name as config spells it.
            pub fn parse(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

scale! {
    /// What a tool can do at its worst. Later is stricter: where several apply, the last one rules.
    SafetyClass {
        /// Looks, changes nothing.
        Read = "read",
        /// Changes files or state inside the workspace.
        Write = "write",
        /// Talks to other machines.
        Network = "network",
        /// Spends money.
        Financial = "financial",
        /// Acts with rights an agent does not have by itself.
        Privileged = "privileged",
    }
}

scale! {
    /// How much is at stake in one call.
    Risk {
        /// Nothing that matters.
        Low = "low",
        /// Work that can be redone.
        Medium = "medium",
        /// Work or data that may be lost, or seen by others.
        High = "high",
        /// Production, money, people.
        Critical = "critical",
    }
}

scale! {
    /// How far an agent is let. The first four are ordered; `custom` stands beside them: it permits nothing by itself.
    Level {
        /// No access to the outside.
        Sandboxed = "sandboxed",
        /// The outside by allowlist and approval.
        Restricted = "restricted",
        /// Ordinary development.
        Standard = "standard",
        /// Everything there is.
        Elevated = "elevated",
        /// Only what the agent's own lists allow.
        Custom = "custom",
    }
}

impl Level {
    /// The four that are ordered.
    pub const LADDER: [Level; 4] = [Self::Sandboxed, Self::Restricted, Self::Standard, Self::Elevated];
}
