//! From the syntax tree to the list of commands.
//!
//! Everything that could run is walked: words, targets of redirections, here-documents that expand, subscripts,
//! arithmetic, defaults of parameters. Where the tree has a place this file does not look into, the text itself is
//! checked for a substitution nobody walked, and one is a doubt.

use std::collections::{BTreeMap, BTreeSet};

use shuck_ast as ast;
use shuck_parser::{
    ShellDialect, ShellProfile,
    parser::{ParseStatus, Parser},
};

use super::{
    Doubt, Parse,
    ir::{Assignment, Command, Context, Flow, Redirect, Role, UNKNOWN, Why, Word},
    limits::{MAX_COMMANDS, MAX_SECOND_BYTES, MAX_SECOND_SUBSTITUTIONS, MAX_WORDS, MAX_WRAPPERS, Shape},
    paths::{Place, resolve},
    quiet, second,
    unwrap::{self, Inner},
};

/// What reading has found so far.
pub(super) struct Walker<'p> {
    pub(super) place: &'p Place,
    pub(super) parse: Parse,
    pub(super) commands: Vec<Command>,
    pub(super) doubts: Vec<Doubt>,
    /// Text that could not be read in full.
    pub(super) unread: Vec<String>,
    cwd: Option<String>,
    variables: BTreeMap<String, Option<String>>,
    functions: BTreeSet<String>,
    pipelines: usize,
    /// Scripts inside scripts, and wrappers inside wrappers.
    depth: usize,
}

impl<'p> Walker<'p> {
    pub(super) fn new(place: &'p Place) -> Self {
        Self {
            place,
            parse: Parse::Ok,
            commands: Vec::new(),
            doubts: Vec::new(),
            unread: Vec::new(),
            cwd: Some(place.cwd.clone()),
            variables: BTreeMap::new(),
            functions: BTreeSet::new(),
            pipelines: 0,
            depth: 0,
        }
    }

    pub(super) fn doubt(&mut self, code: &'static str, detail: impl Into<String>) {
        let doubt = Doubt { code, detail: detail.into() };
        if !self.doubts.contains(&doubt) && self.doubts.len() < 64 {
            self.doubts.push(doubt);
        }
    }

    /// Reads a whole script, or a script inside one.
    pub(super) fn script(&mut self, text: &str, cx: &Context) {
        if self.depth > MAX_WRAPPERS {
            self.doubt("wrapped_too_deep", format!("commands start commands more than {MAX_WRAPPERS} levels deep"));
            self.unread.push(text.to_owned());
            return;
        }
        let shape = Shape::of(text);
        if shape.is_over() {
            self.parse = Parse::Failed;
            self.doubt("too_deep", "it nests deeper, or chains more operators, than is read");
            self.unread.push(text.to_owned());
            return;
        }
        // A parser that panics on hostile text has failed to read it, and that is all.
        let depth = self.depth;
        if quiet::survive(|| self.parsed(text, &shape, cx)).is_none() {
            self.depth = depth;
            self.parse = Parse::Failed;
            self.doubt("unparsable", "a parser could not cope with it");
            self.unread.push(text.to_owned());
        }
    }

    /// Takes variables that are set before the script starts.
    pub(super) fn set(&mut self, env: &BTreeMap<String, String>) {
        for (name, value) in env {
            self.set_variable(name, Some(value), &Context::default());
        }
    }

    /// Reads words that no shell will see, and the variables set for them.
    pub(super) fn argv(&mut self, argv: Vec<Word>, assignments: Vec<Assignment>) {
        if !argv.is_empty() {
            self.started(argv, assignments, &Context::default(), self.cwd.clone());
        }
    }

    fn parsed(&mut self, text: &str, shape: &Shape, cx: &Context) {
        let fuel = 64 * text.len() + 4096;
        let profile = ShellProfile::native(ShellDialect::Bash);
        let result = Parser::with_limits_and_profile(text, 2 * super::limits::MAX_NESTING, fuel, profile).parse();
        if result.status != ParseStatus::Clean {
            let message = result.diagnostics.first().map_or("it is not a whole script", |first| &*first.message);
            self.doubt("unparsable", message.to_owned());
            self.parse = match result.file.body.stmts.is_empty() {
                true => Parse::Failed,
                false => self.parse.max(Parse::Partial),
            };
            if result.terminal_error.is_some() {
                self.unread.push(text.to_owned());
            }
        }
        self.depth += 1;
        let mut seen = Seen { source: text, spellings: Vec::new() };
        self.sequence(&mut seen, &result.file.body, cx);
        self.depth -= 1;
        if self.commands.len() >= MAX_COMMANDS {
            self.unread.push(text.to_owned());
        }
        if result.status == ParseStatus::Clean {
            self.compare(text, shape, &seen);
        }
    }

    fn compare(&mut self, text: &str, shape: &Shape, seen: &Seen<'_>) {
        if text.len() > MAX_SECOND_BYTES || shape.substitutions > MAX_SECOND_SUBSTITUTIONS {
            self.doubt("too_large", "it is too large for a second opinion");
        } else if second::commands(text).is_none_or(|commands| commands != seen.spellings) {
            self.parse = self.parse.max(Parse::Partial);
            self.doubt("readings_differ", "two parsers do not see the same commands in it");
        }
    }

    fn sequence(&mut self, seen: &mut Seen<'_>, sequence: &ast::StmtSeq, cx: &Context) {
        for stmt in &sequence.stmts {
            self.statement(seen, stmt, cx);
        }
    }

    /// A sequence whose `cd` and variables do not outlive it.
    fn scoped(&mut self, seen: &mut Seen<'_>, sequence: &ast::StmtSeq, cx: &Context) {
        let cwd = self.cwd.clone();
        self.sequence(seen, sequence, cx);
        self.cwd = cwd;
    }

    /// A sequence that may run or not, so that where it ends up is not certain.
    fn branch(&mut self, seen: &mut Seen<'_>, sequence: &ast::StmtSeq, cx: &Context) {
        let cwd = self.cwd.clone();
        self.sequence(seen, sequence, cx);
        if self.cwd != cwd {
            self.cwd = None;
        }
    }

    fn statement(&mut self, seen: &mut Seen<'_>, stmt: &ast::Stmt, cx: &Context) {
        let mut cx = cx.clone();
        cx.in_background |= matches!(stmt.terminator, Some(ast::StmtTerminator::Background(_)));
        match &stmt.command {
            ast::Command::Simple(command) => {
                let words: Vec<&ast::Word> = std::iter::once(&command.name).chain(&command.args).collect();
                self.simple(seen, &words, &command.assignments, &stmt.redirects, &cx);
            }
            ast::Command::Builtin(builtin) => {
                let (name, first, rest, assignments) = match builtin {
                    ast::BuiltinCommand::Break(b) => ("break", &b.depth, &b.extra_args, &b.assignments),
                    ast::BuiltinCommand::Continue(b) => ("continue", &b.depth, &b.extra_args, &b.assignments),
                    ast::BuiltinCommand::Return(b) => ("return", &b.code, &b.extra_args, &b.assignments),
                    ast::BuiltinCommand::Exit(b) => ("exit", &b.code, &b.extra_args, &b.assignments),
                };
                let name = ast::Word::literal(name);
                let words: Vec<&ast::Word> = std::iter::once(&name).chain(first).chain(rest).collect();
                self.simple(seen, &words, assignments, &stmt.redirects, &cx);
            }
            ast::Command::Decl(decl) => self.declaration(seen, decl, &stmt.redirects, &cx),
            ast::Command::Binary(binary) => {
                self.binary(seen, binary, &cx);
                self.loose_redirects(seen, &stmt.redirects, &cx);
            }
            ast::Command::Compound(compound) => {
                self.loose_redirects(seen, &stmt.redirects, &cx);
                self.compound(seen, compound, &cx);
            }
            ast::Command::Function(function) => {
                let mut inside = cx.clone();
                for name in function.static_names() {
                    self.functions.insert(name.to_string());
                    self.doubt("function", format!("it defines a function `{name}`"));
                    inside.function = Some(name.to_string());
                }
                if function.static_names().next().is_none() {
                    self.doubt("function", "it defines a function under a name that is not certain");
                }
                self.loose_redirects(seen, &stmt.redirects, &cx);
                let cwd = self.cwd.clone();
                self.statement(seen, &function.body, &inside);
                if self.cwd != cwd {
                    self.cwd = None;
                }
            }
            ast::Command::AnonymousFunction(function) => {
                self.doubt("unparsable", "it holds a function without a name");
                self.statement(seen, &function.body, &cx);
            }
        }
    }

    /// Chains are flat here, however the tree leans: a thousand links must not be a thousand calls.
    fn binary(&mut self, seen: &mut Seen<'_>, root: &ast::BinaryCommand, cx: &Context) {
        let is_pipe = |op| matches!(op, ast::BinaryOp::Pipe | ast::BinaryOp::PipeAll);
        let mut links = Vec::new();
        let mut left: Vec<&ast::Stmt> = vec![&root.right, &root.left];
        while let Some(stmt) = left.pop() {
            match &stmt.command {
                ast::Command::Binary(inner) if is_pipe(inner.op) == is_pipe(root.op) && stmt.redirects.is_empty() => {
                    left.extend([&*inner.right, &*inner.left]);
                }
                _ => links.push(stmt),
            }
        }
        let mut cx = cx.clone();
        if is_pipe(root.op) {
            self.pipelines += 1;
            cx.pipeline = Some(self.pipelines);
            for stmt in links {
                let cwd = self.cwd.clone();
                self.statement(seen, stmt, &cx);
                self.cwd = cwd;
                cx.is_fed = true;
            }
        } else {
            for stmt in links {
                self.statement(seen, stmt, &cx);
            }
        }
    }

    fn compound(&mut self, seen: &mut Seen<'_>, compound: &ast::CompoundCommand, cx: &Context) {
        let looped = Context { in_loop: true, ..cx.clone() };
        match compound {
            ast::CompoundCommand::If(c) => {
                self.branch(seen, &c.condition, cx);
                self.branch(seen, &c.then_branch, cx);
                for (condition, body) in &c.elif_branches {
                    self.branch(seen, condition, cx);
                    self.branch(seen, body, cx);
                }
                if let Some(body) = &c.else_branch {
                    self.branch(seen, body, cx);
                }
            }
            ast::CompoundCommand::For(c) => {
                for target in &c.targets {
                    match &target.name {
                        Some(name) => self.set_variable(name.as_str(), None, cx),
                        None => self.doubt("unparsable", "a loop sets a variable whose name is not certain"),
                    }
                }
                self.header_words(seen, c.words.iter().flatten(), cx);
                self.branch(seen, &c.body, &looped);
            }
            ast::CompoundCommand::Select(c) => {
                self.set_variable(c.variable.as_str(), None, cx);
                self.header_words(seen, &c.words, cx);
                self.branch(seen, &c.body, &looped);
            }
            ast::CompoundCommand::ArithmeticFor(c) => {
                for part in [&c.init_ast, &c.condition_ast, &c.step_ast].into_iter().flatten() {
                    self.arithmetic(seen, part, cx);
                }
                self.check_walked(seen, [c.init_span, c.condition_span, c.step_span], cx);
                self.branch(seen, &c.body, &looped);
            }
            ast::CompoundCommand::While(c) => {
                self.branch(seen, &c.condition, &looped);
                self.branch(seen, &c.body, &looped);
            }
            ast::CompoundCommand::Until(c) => {
                self.branch(seen, &c.condition, &looped);
                self.branch(seen, &c.body, &looped);
            }
            ast::CompoundCommand::Case(c) => {
                self.header_words(seen, [&c.word], cx);
                for case in &c.cases {
                    for pattern in &case.patterns {
                        self.pattern(seen, pattern, cx);
                    }
                    self.branch(seen, &case.body, cx);
                }
            }
            ast::CompoundCommand::Subshell(body) => self.scoped(seen, body, cx),
            ast::CompoundCommand::BraceGroup(body) => self.sequence(seen, body, cx),
            ast::CompoundCommand::Arithmetic(c) => {
                if let Some(expression) = &c.expr_ast {
                    self.arithmetic(seen, expression, cx);
                }
                self.check_walked(seen, [c.expr_span], cx);
            }
            ast::CompoundCommand::Time(c) => {
                if let Some(stmt) = &c.command {
                    self.statement(seen, stmt, cx);
                }
            }
            ast::CompoundCommand::Conditional(c) => self.condition(seen, &c.expression, cx),
            ast::CompoundCommand::Coproc(c) => {
                let cx = Context { in_background: true, ..cx.clone() };
                self.statement(seen, &c.body, &cx);
            }
            ast::CompoundCommand::Repeat(_) | ast::CompoundCommand::Foreach(_) | ast::CompoundCommand::Always(_) => {
                self.doubt("unparsable", "it holds a command of another shell");
                self.unread.push(seen.source.to_owned());
            }
        }
    }

    fn condition(&mut self, seen: &mut Seen<'_>, root: &ast::ConditionalExpr, cx: &Context) {
        let mut left = vec![root];
        while let Some(expression) = left.pop() {
            match expression {
                ast::ConditionalExpr::Binary(e) => left.extend([&*e.right, &*e.left]),
                ast::ConditionalExpr::Unary(e) => left.push(&e.expr),
                ast::ConditionalExpr::Parenthesized(e) => left.push(&e.expr),
                ast::ConditionalExpr::Word(word) | ast::ConditionalExpr::Regex(word) => {
                    self.header_words(seen, [word], cx);
                }
                ast::ConditionalExpr::Pattern(pattern) => self.pattern(seen, pattern, cx),
                ast::ConditionalExpr::VarRef(reference) => self.subscript(seen, reference, cx),
            }
        }
    }

    /// Words that are no arguments: of loops, of `case`, of `[[`.
    fn header_words<'w>(&mut self, seen: &mut Seen<'_>, words: impl IntoIterator<Item = &'w ast::Word>, cx: &Context) {
        for word in words {
            let word = self.word(seen, word, cx);
            if word.why().is_some_and(|why| why >= Why::Twice) {
                self.doubt("dynamic", format!("`{word}` is not certain: {}", word.why().map_or("", Why::as_str)));
            }
        }
    }

    fn simple(
        &mut self,
        seen: &mut Seen<'_>,
        words: &[&ast::Word],
        assignments: &[ast::Assignment],
        redirects: &[ast::Redirect],
        cx: &Context,
    ) {
        let source = seen.source;
        let spelled = |word: &&&ast::Word| match word.parts.as_slice() {
            // A builtin with its own node has no word for its name.
            [only] if only.span == ast::Span::new() => only_text(only, source),
            _ => second::plain(word.span.slice(source)),
        };
        let mut spellings: Vec<String> = assignments.iter().map(|a| second::plain(a.span.slice(source))).collect();
        spellings.extend(words.iter().filter(|word| !is_absent(word, source)).map(|word| spelled(&word)));
        let words: Vec<&&ast::Word> = words.iter().filter(|word| !is_absent(word, source)).collect();
        if !spellings.is_empty() {
            seen.spellings.push(spellings);
        }

        let Some(index) = self.reserve(cx) else { return };
        let inside = Context { parent: Some(index), in_substitution: true, ..Context::default() };
        let inside = Context { function: cx.function.clone(), in_loop: cx.in_loop, ..inside };
        let assignments = assignments.iter().map(|a| self.assignment(seen, a, &inside)).collect::<Vec<_>>();
        let argv: Vec<Word> = words.iter().map(|word| self.word(seen, word, &inside)).collect();
        let redirects = self.redirects(seen, redirects, &inside);
        if argv.is_empty() {
            for assignment in &assignments {
                self.set_variable(&assignment.name, assignment.value.literal(), cx);
            }
        }
        self.finish(index, argv, assignments, redirects);
    }

    /// `export A=1`: the operands are words, and they set variables.
    fn declaration(&mut self, seen: &mut Seen<'_>, decl: &ast::DeclClause, redirects: &[ast::Redirect], cx: &Context) {
        let Some(index) = self.reserve(cx) else { return };
        let inside = Context { parent: Some(index), in_substitution: true, ..Context::default() };
        let mut spellings: Vec<String> =
            decl.assignments.iter().map(|a| second::plain(a.span.slice(seen.source))).collect();
        spellings.push(decl.variant.to_string());
        let mut assignments: Vec<Assignment> =
            decl.assignments.iter().map(|a| self.assignment(seen, a, &inside)).collect();
        let mut argv = vec![Word::new(decl.variant.as_str())];
        for operand in &decl.operands {
            let span = match operand {
                ast::DeclOperand::Flag(word) => {
                    argv.push(self.word(seen, word, &inside));
                    word.span
                }
                ast::DeclOperand::Dynamic(word) => {
                    let word_read = self.word(seen, word, &inside);
                    self.doubt("dynamic", format!("`{word_read}` may set any variable"));
                    argv.push(word_read);
                    word.span
                }
                ast::DeclOperand::Name(reference) => {
                    self.subscript(seen, reference, &inside);
                    argv.push(Word::new(reference.name.as_str()));
                    self.set_variable(reference.name.as_str(), None, cx);
                    reference.span
                }
                ast::DeclOperand::Assignment(assignment) => {
                    let read = self.assignment(seen, assignment, &inside);
                    self.set_variable(&read.name, read.value.literal(), cx);
                    argv.push(read.value.clone());
                    assignments.push(read);
                    assignment.span
                }
            };
            spellings.push(second::plain(span.slice(seen.source)));
        }
        seen.spellings.push(spellings);
        let redirects = self.redirects(seen, redirects, &inside);
        self.finish(index, argv, assignments, redirects);
    }

    /// A place in the list, taken before the words are walked: what stands inside a command comes after it.
    fn reserve(&mut self, cx: &Context) -> Option<usize> {
        if self.commands.len() >= MAX_COMMANDS {
            self.doubt("too_many_commands", format!("it holds more than {MAX_COMMANDS} commands"));
            return None;
        }
        self.commands.push(Command {
            argv: Vec::new(),
            words: Vec::new(),
            assignments: Vec::new(),
            redirects: Vec::new(),
            context: cx.clone(),
            role: Role::Plain,
            cwd: self.cwd.clone(),
            is_system_program: false,
        });
        Some(self.commands.len() - 1)
    }

    /// Completes a command, folds `cd` and assignments into what follows, and reads what it starts.
    fn finish(&mut self, index: usize, argv: Vec<Word>, assignments: Vec<Assignment>, redirects: Vec<Redirect>) {
        if argv.len() > MAX_WORDS {
            self.doubt("too_many_words", format!("a command has {} words", argv.len()));
        }
        let normal = unwrap::normalise(&argv);
        let mut cwd = self.commands[index].cwd.clone();
        for dir in &normal.directories {
            cwd = dir.literal().and_then(|dir| resolve(cwd.as_deref(), dir));
        }
        let command = &mut self.commands[index];
        command.argv = argv;
        command.words = normal.words;
        command.assignments = assignments;
        command.redirects = redirects;
        command.is_system_program = normal.is_system_program;
        command.cwd = cwd;
        let command = command.clone();

        if let Some(name) = command.words.first() {
            if let Some(why) = name.why() {
                self.doubt("dynamic_command", format!("the program `{name}` is not certain: {}", why.as_str()));
            }
            let is_plain = name.text().chars().all(|c| c.is_ascii_graphic());
            if !is_plain && !name.text().is_empty() && !name.text().contains(UNKNOWN) {
                self.doubt("odd_command", format!("the program `{name}` is not plain ASCII"));
            }
        }
        if self.functions.contains(command.program()) && command.argv.len() == command.words.len() {
            self.commands[index].role = Role::Call;
            return;
        }
        self.follow(&command);
        self.start(index, &command);
    }

    /// What a command does to the shell that runs it.
    fn follow(&mut self, command: &Command) {
        let operand = command.operands().next().cloned();
        match command.program() {
            "cd" | "pushd" => {
                let dir = operand.unwrap_or_else(|| Word::new(&self.place.home));
                self.cwd = match dir.literal() {
                    Some("-") | None => None,
                    Some(dir) => resolve(self.cwd.as_deref(), dir),
                };
            }
            "popd" => self.cwd = None,
            "alias" if operand.is_some() => self.doubt("alias", "it defines an alias"),
            "unalias" | "enable" | "shopt" | "hash" => {
                self.doubt("alias", format!("`{}` changes what names mean", command.program()));
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                for name in command.operands() {
                    self.assigns(name);
                }
            }
            "printf" if command.has_short('v') => self.doubt("assigns", "`printf -v` sets a variable by name"),
            "let" | "unset" | "declare" | "typeset" | "local" | "export" | "readonly" => {
                for name in command.args() {
                    self.assigns(name);
                }
            }
            "test" | "[" if command.args().iter().any(|arg| arg.text() == "-v") => {
                self.doubt("assigns", "`-v` evaluates a subscript");
            }
            _ => {}
        }
    }

    /// A word that a builtin takes for the name of a variable.
    fn assigns(&mut self, word: &Word) {
        let text = word.text();
        if text.contains(['[', '$', '`']) {
            self.doubt("assigns", format!("`{word}` holds a subscript, which is evaluated"));
        }
        let name = text.split('=').next().unwrap_or_default();
        if !name.starts_with('-') && is_name(name) {
            self.set_variable(name, None, &Context::default());
        }
    }

    fn set_variable(&mut self, name: &str, value: Option<&str>, cx: &Context) {
        if is_hijack(name) {
            self.doubt("hijack", format!("setting `{name}` changes what other programs run"));
        }
        // A second value, or one set in a place that may not run, is no certain value.
        let is_certain = !cx.in_loop && cx.function.is_none() && !self.variables.contains_key(name);
        self.variables.insert(name.to_owned(), value.filter(|_| is_certain).map(str::to_owned));
    }

    /// Reads the commands that a command starts.
    fn start(&mut self, index: usize, command: &Command) {
        let inner = unwrap::inner(command);
        if matches!(inner, Inner::Nothing) {
            return;
        }
        self.depth += 1;
        let cx = Context { parent: Some(index), ..command.context.clone() };
        match inner {
            Inner::Nothing => {}
            Inner::Unclear(words) => {
                self.commands[index].role = Role::Wrapper;
                self.doubt("wrapper", format!("what `{}` starts is not certain", command.program()));
                self.unread.push(words.iter().map(Word::text).collect::<Vec<_>>().join(" "));
            }
            Inner::Commands { role, commands } => {
                self.commands[index].role = role;
                for (assignments, argv) in commands {
                    self.started(argv, assignments, &cx, command.cwd.clone());
                }
            }
            Inner::Scripts { role, scripts } => {
                self.commands[index].role = role;
                for script in scripts {
                    match script.literal() {
                        Some(text) => {
                            let cwd = self.cwd.clone();
                            let (text, functions) = (text.to_owned(), self.functions.clone());
                            self.script(&text, &cx);
                            if role != Role::Plain {
                                self.functions = functions;
                                self.cwd = cwd;
                            }
                        }
                        None => {
                            self.commands[index].role = Role::Wrapper;
                            let program = command.program();
                            self.doubt("dynamic_script", format!("the script that `{program}` runs is not certain"));
                            self.unread.push(script.text().to_owned());
                        }
                    }
                }
            }
        }
        self.depth -= 1;
    }

    fn started(&mut self, argv: Vec<Word>, assignments: Vec<Assignment>, cx: &Context, cwd: Option<String>) {
        if self.depth > MAX_WRAPPERS {
            self.doubt("wrapped_too_deep", format!("commands start commands more than {MAX_WRAPPERS} levels deep"));
            self.unread.push(argv.iter().map(Word::text).collect::<Vec<_>>().join(" "));
            return;
        }
        let Some(index) = self.reserve(cx) else { return };
        self.commands[index].cwd = cwd;
        for assignment in &assignments {
            if is_hijack(&assignment.name) {
                self.doubt("hijack", format!("setting `{}` changes what other programs run", assignment.name));
            }
        }
        self.finish(index, argv, assignments, Vec::new());
    }

    fn assignment(&mut self, seen: &mut Seen<'_>, assignment: &ast::Assignment, cx: &Context) -> Assignment {
        self.subscript(seen, &assignment.target, cx);
        let name = assignment.target.name.to_string();
        if is_hijack(&name) {
            self.doubt("hijack", format!("setting `{name}` changes what other programs run"));
        }
        let value = match &assignment.value {
            ast::AssignmentValue::Scalar(word) => self.word(seen, word, cx),
            ast::AssignmentValue::Compound(array) => {
                let mut why = Why::ScriptVariable;
                for element in &array.elements {
                    let (key, value) = match element {
                        ast::ArrayElem::Sequential(value) => (None, value),
                        ast::ArrayElem::Keyed { key, value } | ast::ArrayElem::KeyedAppend { key, value } => {
                            (Some(key), value)
                        }
                    };
                    if let Some(key) = key {
                        self.check_walked(seen, [Some(key.span())], cx);
                    }
                    let value = self.word(seen, &value.word, cx);
                    why = why.max(value.why().unwrap_or(why));
                }
                Word::Dynamic { guess: UNKNOWN.to_string(), why }
            }
        };
        if value.why().is_some_and(|why| why >= Why::Twice) {
            self.doubt("dynamic", format!("the value of `{name}` is not certain"));
        }
        let is_plain = !assignment.append && assignment.target.subscript.is_none();
        let value = if is_plain {
            value
        } else {
            let why = value.why().unwrap_or(Why::ScriptVariable);
            Word::Dynamic { guess: UNKNOWN.to_string(), why }
        };
        Assignment { name, value }
    }

    /// Redirections of something that is not a simple command.
    fn loose_redirects(&mut self, seen: &mut Seen<'_>, redirects: &[ast::Redirect], cx: &Context) {
        if redirects.is_empty() {
            return;
        }
        let Some(index) = self.reserve(cx) else { return };
        let inside = Context { parent: Some(index), in_substitution: true, ..Context::default() };
        let redirects = self.redirects(seen, redirects, &inside);
        self.finish(index, Vec::new(), Vec::new(), redirects);
    }

    fn redirects(&mut self, seen: &mut Seen<'_>, redirects: &[ast::Redirect], cx: &Context) -> Vec<Redirect> {
        let mut found = Vec::new();
        for redirect in redirects {
            if redirect.fd_var.as_ref().is_some_and(|name| is_hijack(name.as_str())) {
                self.doubt("hijack", "a redirection sets a variable that changes what other programs run");
            }
            match &redirect.target {
                ast::RedirectTarget::Word(target) => {
                    let target = self.word(seen, target, cx);
                    let flow = flow(redirect.kind, &target);
                    found.push(Redirect { flow, target });
                }
                ast::RedirectTarget::Heredoc(heredoc) => {
                    let target = self.heredoc(seen, heredoc, cx);
                    found.push(Redirect { flow: Flow::Text, target });
                }
            }
        }
        found
    }

    fn heredoc(&mut self, seen: &mut Seen<'_>, heredoc: &ast::Heredoc, cx: &Context) -> Word {
        let source = seen.source;
        if !heredoc.body.mode.expands() {
            return Word::Literal(heredoc.body.render(source));
        }
        let before = self.commands.len();
        let mut text = Text::default();
        for part in &heredoc.body.parts {
            match &part.kind {
                ast::HeredocBodyPart::Literal(literal) => text.push(literal.syntax_str(source, part.span)),
                ast::HeredocBodyPart::Variable(name) => self.variable(&mut text, name.as_str()),
                ast::HeredocBodyPart::CommandSubstitution { body, syntax } => {
                    self.substitution(seen, body, *syntax, part.span, true, cx);
                    text.unknown(Why::Substitution);
                }
                ast::HeredocBodyPart::ArithmeticExpansion { expression_ast, expression_word_ast, .. } => {
                    self.arithmetic_expansion(seen, &mut text, expression_ast.as_deref(), expression_word_ast, cx);
                }
                ast::HeredocBodyPart::Parameter(parameter) => self.parameter(seen, &mut text, parameter, cx),
            }
        }
        self.check_count(seen, heredoc.body.span, before, &mut text);
        text.word()
    }

    /// The text of a word; commands inside it join the list.
    fn word(&mut self, seen: &mut Seen<'_>, word: &ast::Word, cx: &Context) -> Word {
        let before = self.commands.len();
        let mut text = Text::default();
        self.parts(seen, &mut text, &word.parts, false, cx);
        if word.has_active_brace_expansion() {
            text.worry(Why::Braces);
        }
        self.check_count(seen, word.span, before, &mut text);
        text.word()
    }

    fn parts(
        &mut self,
        seen: &mut Seen<'_>,
        text: &mut Text,
        parts: &[ast::WordPartNode],
        is_quoted: bool,
        cx: &Context,
    ) {
        let source = seen.source;
        for (at, part) in parts.iter().enumerate() {
            match &part.kind {
                ast::WordPart::Literal(literal) if is_quoted => {
                    unescape_quoted(text, literal.syntax_str(source, part.span));
                }
                ast::WordPart::Literal(literal) => {
                    let raw = literal.syntax_str(source, part.span);
                    self.unquoted(text, raw, at == 0, parts.len() == 1);
                }
                ast::WordPart::SingleQuoted { value, dollar: false } => text.push(value.slice(source)),
                ast::WordPart::SingleQuoted { value, dollar: true } => {
                    text.push(value.slice(source));
                    text.worry(Why::Spelled);
                }
                ast::WordPart::DoubleQuoted { parts, .. } => self.parts(seen, text, parts, true, cx),
                ast::WordPart::Variable(name) => self.variable(text, name.as_str()),
                ast::WordPart::CommandSubstitution { body, syntax } => {
                    self.substitution(seen, body, *syntax, part.span, is_quoted, cx);
                    text.unknown(Why::Substitution);
                }
                ast::WordPart::ProcessSubstitution { body, .. } => {
                    self.nested(seen, body, cx);
                    text.push("/dev/fd/63");
                    text.worry(Why::Substitution);
                }
                ast::WordPart::ArithmeticExpansion { expression_ast, expression_word_ast, .. } => {
                    self.arithmetic_expansion(seen, text, expression_ast.as_deref(), expression_word_ast, cx);
                }
                ast::WordPart::Parameter(parameter) => self.parameter(seen, text, parameter, cx),
                ast::WordPart::Length(reference)
                | ast::WordPart::ArrayLength(reference)
                | ast::WordPart::ArrayIndices(reference) => {
                    self.subscript(seen, reference, cx);
                    text.unknown(Why::ShellVariable);
                }
                ast::WordPart::ArrayAccess(reference) => {
                    self.subscript(seen, reference, cx);
                    self.variable(text, reference.name.as_str());
                }
                _ => text.unknown(Why::Unread),
            }
        }
    }

    /// Text outside quotes: escapes are taken away; patterns and a leading tilde are seen.
    fn unquoted(&self, text: &mut Text, raw: &str, is_first: bool, is_whole: bool) {
        let mut raw = raw;
        if is_first && raw.starts_with('~') {
            let name_ends = raw.find('/').unwrap_or(raw.len());
            let ends_here = name_ends < raw.len() || is_whole;
            match &raw[1..name_ends] {
                "" if ends_here => {
                    text.push(&self.place.home);
                    raw = &raw[1..];
                }
                _ => text.worry(Why::Tilde),
            }
        }
        let mut chars = raw.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some('\n') => {}
                    Some(escaped) => text.text.push(escaped),
                    None => text.text.push('\\'),
                },
                // A bracket that is never closed is a plain character, such as the program `[`.
                '[' if !chars.as_str().contains(']') => text.text.push(c),
                '*' | '?' | '[' => {
                    text.worry(Why::Glob);
                    text.text.push(c);
                }
                // An extended pattern, which is a syntax error unless an option is set.
                '(' | ')' => {
                    text.worry(Why::Unread);
                    text.text.push(c);
                }
                c => text.text.push(c),
            }
        }
    }

    fn variable(&mut self, text: &mut Text, name: &str) {
        match self.variables.get(name) {
            Some(Some(value)) => {
                text.push(&value.clone());
                text.worry(Why::ScriptVariable);
            }
            Some(None) => text.unknown(Why::ScriptVariable),
            None if name == "HOME" => {
                text.push(&self.place.home.clone());
                text.worry(Why::ShellVariable);
            }
            None if name == "PWD" => match self.cwd.clone() {
                Some(cwd) => {
                    text.push(&cwd);
                    text.worry(Why::ShellVariable);
                }
                None => text.unknown(Why::ShellVariable),
            },
            None if is_shell_variable(name) => text.unknown(Why::ShellVariable),
            // `l$@s` and `$1`: arguments of the script, of which there are none.
            None if matches!(name, "@" | "*") || name.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => {
                text.worry(Why::Variable);
            }
            None if is_name(name) => text.unknown(Why::Variable),
            None => text.unknown(Why::Unread),
        }
    }

    fn parameter(&mut self, seen: &mut Seen<'_>, text: &mut Text, parameter: &ast::ParameterExpansion, cx: &Context) {
        use ast::BourneParameterExpansion as Bourne;
        let Some(bourne) = parameter.bourne() else {
            text.unknown(Why::Unread);
            return;
        };
        match bourne {
            Bourne::Access { reference } => {
                self.subscript(seen, reference, cx);
                match reference.subscript {
                    None => self.variable(text, reference.name.as_str()),
                    Some(_) => text.unknown(self.why_of(reference.name.as_str())),
                }
            }
            Bourne::Length { reference } | Bourne::Indices { reference } => {
                self.subscript(seen, reference, cx);
                text.unknown(Why::ShellVariable);
            }
            Bourne::Slice { reference, offset_ast, length_ast, offset_word_ast, length_word_ast, .. } => {
                self.subscript(seen, reference, cx);
                for expression in [offset_ast, length_ast].into_iter().flatten() {
                    self.arithmetic(seen, expression, cx);
                }
                if offset_ast.is_none() {
                    self.word(seen, offset_word_ast, cx);
                }
                if let (None, Some(word)) = (length_ast, length_word_ast) {
                    self.word(seen, word, cx);
                }
                text.unknown(self.why_of(reference.name.as_str()));
            }
            Bourne::Operation { reference, operator, operand_word_ast, .. } => {
                self.subscript(seen, reference, cx);
                let mut why = self.why_of(reference.name.as_str());
                if let Some(word) = operand_word_ast {
                    let word = self.word(seen, word, cx);
                    why = why.max(word.why().unwrap_or(why));
                    if matches!(**operator, ast::ParameterOp::AssignDefault) {
                        self.set_variable(reference.name.as_str(), None, cx);
                    }
                }
                match &**operator {
                    ast::ParameterOp::RemovePrefixShort { pattern }
                    | ast::ParameterOp::RemovePrefixLong { pattern }
                    | ast::ParameterOp::RemoveSuffixShort { pattern }
                    | ast::ParameterOp::RemoveSuffixLong { pattern } => self.pattern(seen, pattern, cx),
                    ast::ParameterOp::ReplaceFirst { pattern, replacement_word_ast, .. }
                    | ast::ParameterOp::ReplaceAll { pattern, replacement_word_ast, .. } => {
                        self.pattern(seen, pattern, cx);
                        let word = self.word(seen, replacement_word_ast, cx);
                        why = why.max(word.why().unwrap_or(why));
                    }
                    _ => {}
                }
                text.unknown(why);
            }
            Bourne::PrefixMatch { .. } => text.unknown(Why::ShellVariable),
            Bourne::Transformation { .. } => text.unknown(Why::Twice),
            Bourne::Indirect { operand_word_ast, reference, .. } => {
                self.subscript(seen, reference, cx);
                if let Some(word) = operand_word_ast {
                    self.word(seen, word, cx);
                }
                text.unknown(Why::Twice);
            }
        }
    }

    fn why_of(&self, name: &str) -> Why {
        match self.variables.contains_key(name) {
            true => Why::ScriptVariable,
            false if is_shell_variable(name) || matches!(name, "HOME" | "PWD") => Why::ShellVariable,
            false => Why::Variable,
        }
    }

    fn pattern(&mut self, seen: &mut Seen<'_>, pattern: &ast::Pattern, cx: &Context) {
        for part in &pattern.parts {
            match &part.kind {
                ast::PatternPart::Word(word) => drop(self.word(seen, word, cx)),
                ast::PatternPart::Group { patterns, .. } => {
                    for pattern in patterns {
                        self.pattern(seen, pattern, cx);
                    }
                }
                ast::PatternPart::CharClass(class) => self.check_walked(seen, [Some(class.span())], cx),
                ast::PatternPart::Literal(_) | ast::PatternPart::AnyString | ast::PatternPart::AnyChar => {}
            }
        }
    }

    fn subscript(&mut self, seen: &mut Seen<'_>, reference: &ast::VarRef, cx: &Context) {
        let Some(subscript) = &reference.subscript else { return };
        match (&subscript.arithmetic_ast, &subscript.word_ast) {
            (_, Some(word)) => drop(self.word(seen, word, cx)),
            (Some(expression), None) => {
                self.arithmetic(seen, expression, cx);
            }
            (None, None) => self.check_walked(seen, [Some(subscript.span())], cx),
        }
    }

    fn arithmetic_expansion(
        &mut self,
        seen: &mut Seen<'_>,
        text: &mut Text,
        expression: Option<&ast::ArithmeticExprNode>,
        word: &ast::Word,
        cx: &Context,
    ) {
        let why = match expression {
            Some(expression) => self.arithmetic(seen, expression, cx),
            None => self.word(seen, word, cx).why().unwrap_or(Why::ShellVariable),
        };
        text.unknown(why);
    }

    /// The value of a variable is evaluated again as arithmetic, so one from outside may run a command.
    fn arithmetic(&mut self, seen: &mut Seen<'_>, root: &ast::ArithmeticExprNode, cx: &Context) -> Why {
        let mut worst = Why::ShellVariable;
        let mut left = vec![root];
        while let Some(node) = left.pop() {
            match &node.kind {
                ast::ArithmeticExpr::Number(_) => {}
                ast::ArithmeticExpr::Variable(name) => worst = worst.max(self.why_of(name.as_str())),
                ast::ArithmeticExpr::Indexed { name, index } => {
                    worst = worst.max(self.why_of(name.as_str()));
                    left.push(index);
                }
                ast::ArithmeticExpr::ShellWord(word) => {
                    let word = self.word(seen, word, cx);
                    worst = worst.max(word.why().unwrap_or(worst));
                }
                ast::ArithmeticExpr::Parenthesized { expression: inner }
                | ast::ArithmeticExpr::Unary { expr: inner, .. }
                | ast::ArithmeticExpr::Postfix { expr: inner, .. } => left.push(inner),
                ast::ArithmeticExpr::Binary { left: a, right: b, .. } => left.extend([&**b, &**a]),
                ast::ArithmeticExpr::Conditional { condition, then_expr, else_expr } => {
                    left.extend([&**else_expr, &**then_expr, &**condition]);
                }
                ast::ArithmeticExpr::Assignment { target, value, .. } => {
                    let name = match target {
                        ast::ArithmeticLvalue::Variable(name) => name,
                        ast::ArithmeticLvalue::Indexed { name, index } => {
                            left.push(index);
                            name
                        }
                    };
                    self.set_variable(name.as_str(), None, cx);
                    left.push(value);
                }
            }
        }
        worst
    }

    fn substitution(
        &mut self,
        seen: &mut Seen<'_>,
        body: &ast::StmtSeq,
        syntax: ast::CommandSubstitutionSyntax,
        span: ast::Span,
        is_quoted: bool,
        cx: &Context,
    ) {
        match syntax {
            ast::CommandSubstitutionSyntax::DollarParen => self.nested(seen, body, cx),
            // The parser takes an escaped backtick for a plain character, while the shell takes one level of escapes
            // away and reads the rest as a script of its own.
            ast::CommandSubstitutionSyntax::Backtick => {
                let raw = span.slice(seen.source);
                let raw = raw.strip_prefix('`').and_then(|raw| raw.strip_suffix('`')).unwrap_or(raw);
                let script = unescape_backticks(raw, is_quoted);
                let cwd = self.cwd.clone();
                self.script(&script, cx);
                self.cwd = cwd;
            }
        }
    }

    fn nested(&mut self, seen: &mut Seen<'_>, body: &ast::StmtSeq, cx: &Context) {
        let source = seen.source;
        let mut inside = Seen { source, spellings: Vec::new() };
        self.scoped(&mut inside, body, cx);
        let text = body.span.slice(source);
        if text.contains("<<") {
            return;
        }
        let shape = Shape::of(text);
        self.compare(text, &shape, &inside);
    }

    /// Text of the script in which the tree shows no place for a command must not hold one.
    fn check_walked<const N: usize>(&mut self, seen: &mut Seen<'_>, spans: [Option<ast::Span>; N], cx: &Context) {
        for span in spans.into_iter().flatten() {
            let text = span.slice(seen.source);
            let has_command = self.commands.iter().any(|command| command.context.parent == cx.parent);
            if holds_substitution(text) && !has_command {
                self.doubt("unread_expansion", "it holds an expansion that is not understood");
                self.unread.push(text.to_owned());
            }
        }
    }

    /// A word that spells a substitution and added no command to the list was not read.
    fn check_count(&mut self, seen: &Seen<'_>, span: ast::Span, before: usize, text: &mut Text) {
        let raw = span.slice(seen.source);
        let is_dynamic = text.why.is_some_and(|why| why > Why::Spelled);
        // `$((` may open arithmetic or a subshell in a substitution; what is no arithmetic was taken for it.
        let is_odd = text.why == Some(Why::Unread) && raw.contains("$(");
        if self.commands.len() == before && is_dynamic && (is_odd || holds_substitution(raw)) {
            text.worry(Why::Unread);
            self.doubt("unread_expansion", "it holds an expansion that is not understood");
            self.unread.push(raw.to_owned());
        }
    }
}

/// One source text and the commands found in it, in its own spelling.
struct Seen<'s> {
    source: &'s str,
    spellings: Vec<Vec<String>>,
}

/// A word in the making.
#[derive(Default)]
struct Text {
    text: String,
    why: Option<Why>,
}

impl Text {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn worry(&mut self, why: Why) {
        self.why = self.why.max(Some(why));
    }

    fn unknown(&mut self, why: Why) {
        self.text.push(UNKNOWN);
        self.worry(why);
    }

    fn word(self) -> Word {
        match self.why {
            None => Word::Literal(self.text),
            Some(why) => Word::Dynamic { guess: self.text, why },
        }
    }
}

fn only_text(part: &ast::WordPartNode, source: &str) -> String {
    match &part.kind {
        ast::WordPart::Literal(literal) => literal.as_str(source, part.span).to_owned(),
        _ => String::new(),
    }
}

/// A simple command of assignments only has an empty name that the script does not spell.
fn is_absent(word: &ast::Word, source: &str) -> bool {
    word.span.slice(source).is_empty() && word.parts.iter().all(|part| only_text(part, source).is_empty())
}

fn flow(kind: ast::RedirectKind, target: &Word) -> Flow {
    let is_descriptor = |text: &str| text == "-" || text.trim_end_matches('-').bytes().all(|b| b.is_ascii_digit());
    match kind {
        ast::RedirectKind::Input => Flow::Read,
        ast::RedirectKind::HereDoc | ast::RedirectKind::HereDocStrip | ast::RedirectKind::HereString => Flow::Text,
        ast::RedirectKind::DupOutput | ast::RedirectKind::DupInput if target.literal().is_some_and(is_descriptor) => {
            Flow::Descriptor
        }
        ast::RedirectKind::DupInput => Flow::Read,
        ast::RedirectKind::Output
        | ast::RedirectKind::Clobber
        | ast::RedirectKind::Append
        | ast::RedirectKind::ReadWrite
        | ast::RedirectKind::DupOutput
        | ast::RedirectKind::OutputBoth => Flow::Write,
    }
}

fn unescape_quoted(text: &mut Text, raw: &str) {
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('\n')) => drop(chars.next()),
            ('\\', Some('$' | '`' | '"' | '\\')) => text.text.extend(chars.next()),
            _ => text.text.push(c),
        }
    }
}

fn unescape_backticks(raw: &str, is_quoted: bool) -> String {
    let mut text = String::new();
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('$' | '`' | '\\')) => text.extend(chars.next()),
            ('\\', Some('"')) if is_quoted => text.extend(chars.next()),
            _ => text.push(c),
        }
    }
    text
}

fn holds_substitution(text: &str) -> bool {
    let text = text.replace("$((", "");
    ["$(", "`", "<(", ">(", "${ ", "${|", "${\t", "${\n"].iter().any(|opening| text.contains(opening))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
        && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

/// Variables a shell sets by itself and that hold no secret.
fn is_shell_variable(name: &str) -> bool {
    matches!(name, "?" | "#" | "!" | "$" | "0" | "_" | "-" | "OLDPWD" | "USER" | "LOGNAME" | "SHELL" | "UID")
        || matches!(name, "EUID" | "HOSTNAME" | "RANDOM" | "SECONDS" | "LINENO" | "TERM" | "LANG" | "TMPDIR" | "PPID")
        || matches!(name, "BASHPID" | "BASH_VERSION" | "OSTYPE" | "EPOCHSECONDS" | "PIPESTATUS" | "COLUMNS" | "LINES")
}

/// Variables that make other programs run something, or find another program under a known name.
fn is_hijack(name: &str) -> bool {
    let prefixes = ["LD_", "DYLD_", "GIT_", "BASH_FUNC_", "PYTHON", "PERL5", "RUBY", "NODE_", "NPM_CONFIG_", "JAVA_"];
    let prefixes = prefixes.iter().any(|prefix| name.starts_with(prefix) || name.starts_with(&prefix.to_lowercase()));
    let names = [
        "PATH",
        "BASH_ENV",
        "ENV",
        "IFS",
        "PROMPT_COMMAND",
        "PS0",
        "PS1",
        "PS2",
        "PS4",
        "SHELLOPTS",
        "BASHOPTS",
        "CDPATH",
        "GLOBIGNORE",
        "SHELL",
        "HOME",
        "PWD",
        "OLDPWD",
        "EDITOR",
        "VISUAL",
        "PAGER",
        "MANPAGER",
        "LESSOPEN",
        "LESSCLOSE",
        "LESS",
        "BROWSER",
        "MANOPT",
        "BAT_PAGER",
        "DELTA_PAGER",
        "SYSTEMD_PAGER",
        "SSH_ASKPASS",
        "SUDO_ASKPASS",
        "SUDO_EDITOR",
        "RSYNC_RSH",
        "CVS_RSH",
        "CARGO_HOME",
        "RUSTC_WRAPPER",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUSTDOC",
        "CC",
        "CXX",
        "LINKER",
        "MAKEFLAGS",
        "MAKEFILES",
        "GOFLAGS",
        "GOTOOLCHAIN",
        "CLASSPATH",
        "JDK_JAVA_OPTIONS",
        "_JAVA_OPTIONS",
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "ZDOTDIR",
        "FPATH",
        "TERMINFO",
        "TERMCAP",
        "LOCPATH",
        "NLSPATH",
        "GCONV_PATH",
        "HOSTALIASES",
        "RIPGREP_CONFIG_PATH",
        "GREP_OPTIONS",
        "TAR_OPTIONS",
        "RSYNC_PROXY",
        "MALLOC_PERTURB_",
        "GLIBC_TUNABLES",
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
        "SSL_CERT_FILE",
        "XDG_CONFIG_HOME",
        "DOCKER_HOST",
        "KUBECONFIG",
        "BASH_LOADABLES_PATH",
        "HISTFILE",
        "EXECIGNORE",
        "AWKPATH",
        "AWKLIBPATH",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "EXINIT",
        "VIMINIT",
        "INPUTRC",
    ];
    prefixes || names.contains(&name)
}
