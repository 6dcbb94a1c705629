//! The quick look over all of a text: which parts of it are worth reading.
//!
//! One pass of one automaton over the raw bytes finds anchors: words attacks are made of, and how these words look when
//! they are spelled with digits, letter by letter, or encoded. Common words weigh little and must meet others nearby;
//! a token of a chat template or an encoded order weighs enough alone. Where letters of several alphabets or characters
//! nobody sees stand among Latin letters, the part is read whatever it says. Everything else is let through unread.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::{encoded, fold};

/// How far around an anchor text is read, in bytes.
const AROUND: usize = 400;
/// How close anchors must be to add up, in bytes.
const NEAR: usize = 240;
/// The weight that makes a part worth reading.
const ENOUGH: u32 = 4;

/// A part to read, and what it may be encoded in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<usize>,
    pub(super) form: Form,
}

/// How a part is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Base64,
    Hex,
    Rot13,
    Reversed,
}

/// The parts of the text worth reading, in order; those read the same way do not overlap.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let anchors = &*ANCHORS;
    let mut parts = Parts { text, list: Vec::new() };
    let mut recent: [(usize, u16); 8] = [(usize::MAX, 0); 8];
    let mut next = 0;
    for hit in anchors.automaton.find_iter(text) {
        let anchor = anchors.list[hit.pattern().as_usize()];
        if anchor.form != Form::Plain {
            parts.add(hit.start()..hit.end(), anchor.form);
            continue;
        }
        let mut weight = anchor.weight;
        for (at, group) in &recent {
            if *at != usize::MAX && *group != anchor.group && hit.start() - at <= NEAR {
                weight += anchors.weight_of(*group);
            }
        }
        match recent.iter_mut().find(|(_, group)| *group == anchor.group) {
            Some(seen) => seen.0 = hit.start(),
            None => {
                recent[next % recent.len()] = (hit.start(), anchor.group);
                next += 1;
            }
        }
        if weight >= ENOUGH {
            parts.add(hit.start()..hit.end(), Form::Plain);
        }
    }
    odd_letters(text, |range| parts.add(range, Form::Plain));
    parts.list.sort_by_key(|part| (part.form as u8, part.range.start));
    merge(parts.list)
}

struct Parts<'a> {
    text: &'a str,
    list: Vec<Part>,
}

impl Parts<'_> {
    fn add(&mut self, at: Range<usize>, form: Form) {
        let range = match form {
            Form::Plain | Form::Rot13 | Form::Reversed => around(self.text, at, AROUND),
            Form::Base64 => encoded::run(self.text, at, encoded::is_base64),
            Form::Hex => encoded::run(self.text, at, encoded::is_hex),
        };
        match self.list.last_mut() {
            Some(last) if last.form == form && last.range.end >= range.start && last.range.start <= range.start => {
                last.range.end = last.range.end.max(range.end);
            }
            _ => self.list.push(Part { range, form }),
        }
    }
}

fn merge(sorted: Vec<Part>) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::with_capacity(sorted.len());
    for part in sorted {
        match merged.last_mut() {
            Some(last) if last.form == part.form && last.range.end >= part.range.start => {
                last.range.end = last.range.end.max(part.range.end);
            }
            _ => merged.push(part),
        }
    }
    merged
}

fn around(text: &str, at: Range<usize>, reach: usize) -> Range<usize> {
    text.floor_char_boundary(at.start.saturating_sub(reach))..text.ceil_char_boundary((at.end + reach).min(text.len()))
}

/// Tells where letters are dressed up: styled alphabets, other scripts inside Latin words, what nobody sees.
fn odd_letters(text: &str, mut tell: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let chunk = &bytes[at..(at + 64).min(bytes.len())];
        if chunk.is_ascii() {
            at += chunk.len();
            continue;
        }
        let Some(skip) = chunk.iter().position(|b| *b >= 0x80) else { break };
        let start = text.floor_char_boundary(at + skip);
        let Some(c) = text[start..].chars().next() else { break };
        let end = start + c.len_utf8();
        let latin = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_alphabetic);
        let joined = latin(start.checked_sub(1)) || latin(Some(end));
        let odd = match c {
            '\u{370}'..='\u{58f}' => joined,
            '\u{1d00}'..='\u{1d7f}' | '\u{2460}'..='\u{24ff}' | '\u{ff21}'..='\u{ff5a}' | '\u{1d400}'..='\u{1d7ff}' => {
                true
            }
            '\u{1f130}'..='\u{1f189}' | '\u{e0020}'..='\u{e007e}' => true,
            '\u{300}'..='\u{36f}' => joined,
            _ => joined && fold::is_invisible(c),
        };
        if odd {
            tell(start..end);
        }
        at = end;
    }
}

#[derive(Debug, Clone, Copy)]
struct Anchor {
    weight: u32,
    group: u16,
    form: Form,
}

struct Anchors {
    automaton: AhoCorasick,
    list: Vec<Anchor>,
    weights: Vec<u32>,
}

impl Anchors {
    fn weight_of(&self, group: u16) -> u32 {
        self.weights.get(usize::from(group)).copied().unwrap_or(0)
    }
}

#[expect(clippy::expect_used, reason = "the lists are constants, and a test builds the automaton")]
static ANCHORS: LazyLock<Anchors> = LazyLock::new(|| {
    let (mut words, mut list, mut weights) = (Vec::<Vec<u8>>::new(), Vec::new(), Vec::new());
    for (weight, groups) in WORDS {
        for group in *groups {
            let id = u16::try_from(weights.len()).unwrap_or(u16::MAX);
            weights.push(*weight);
            for word in group.split(' ') {
                words.push(word.replace('_', " ").into_bytes());
                list.push(Anchor { weight: *weight, group: id, form: Form::Plain });
            }
        }
    }
    for (form, spelled) in encoded::spellings() {
        words.push(spelled);
        list.push(Anchor { weight: ENOUGH, group: u16::MAX, form });
    }
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(&words)
        .expect("the anchors are few");
    Anchors { automaton, list, weights }
});

/// Anchors by weight. One string is one group, whose words count once; `_` stands for a blank.
#[rustfmt::skip]
const WORDS: &[(u32, &[&str])] = &[
    (4, &[
        "<|im_ <|sys <|user <|assist <|end <|eot <|start <|begin <|tool <|channel <|message <|fim <|python <|sep <|return <|call <|prompter <|obs <|dev <|admin <|override",
        "[inst] [/inst] <<sys>> <</sys>> <start_of_turn> <end_of_turn> [system] [/system] [system_message [system_prompt] [available_tools] [tool_calls] [tool_results]",
        "<system> </system> <system_prompt <system- <important> <information> <instructions> </instructions> <admin> <hidden> <secret> <critical> <override> <directive> <developer> </user> <assistant> </assistant> <user_input </user_input <user_query </user_query </document> </context>",
        "<function_calls> <tool_call> <invoke_name <tool_use> \"tool_calls\" \"tool_call\" \"function_call\" tools/call <tool_response </tool_re <tool_result <tool_output <use_mcp_tool> to=functions </function_res",
        "system_prompt systemprompt system_message system-prompt system_override system_instruction system_notice system_alert systemanweisung prompt_système prompt_del_sistema prompt_do_sistema prompt_di_sistema",
        "jailbreak developer_mode dev_mode god_mode godmode uncensored unfiltered unrestricted do_anything_now yolo_mode debug_mode admin_mode dan_mode no_restrictions no_filter no_ethic no_moral without_restriction not_bound_by broken_free dangerously-skip",
        "prompt_injection ignore_previous ignore_all ignore_any ignore_the_above ignore_your ignore_my ignore_the_prev ignore_prior ignore_every ignore_what ignore_these ignore_earlier disregard forget_everything forget_all forget_your forget_previous forget_prior forget_about_your forget_what forget_the_prev override_all override_your override_the override_any override_previous overrides_all supersede",
        "previous_instruction prior_instruction above_instruction earlier_instruction preceding_instruction all_instruction your_instruction initial_instruction original_instruction hidden_instruction secret_instruction new_instruction following_instruction previous_prompt initial_prompt your_prompt previous_directions previous_rules your_rules your_guidelines previous_command",
        "tell_the_user mention_this inform_the_user notify_the_user tell_anyone tell_user without_the_user without_user without_informing without_telling without_notifying without_mentioning from_the_user reveal_this mention_it to_the_user,_but",
        "you_are_now you're_now from_now_on henceforth frm_nw_on now_you_are you_are_going_to you_are_no_longer you_will_now your_new_role pretend act_as_a act_as_an acting_as roleplay role-play role_play imagine_you respond_as answer_as in_character alter_ego persona act_like",
        "as_an_ai an_ai_ ai_assistant ai_model ai_agent ai_system language_model chatgpt chat_gpt dear_ai note_to_ai attention_ai hey_ai if_you_are_an if_you're_an you_are_an you_are_a_ you,_the llm_ openai anthropic llama-2 gpt-4 gpt-5",
        "\"role\":_\"system\" \"role\":\"system\" 'role':_'system' \\nsystem: \\nassistant: \\nhuman: ###_system ###_instruction ###_new ##_system \nsystem: \nassistant: \nhuman: end_of_prompt end_of_system end_of_instr end_of_context end_of_doc end_of_user",
        "before_using_this before_calling before_answering before_responding when_this_tool before_you_use before_invoking before_proceeding before_you_continue",
        "exfiltrat all_future future_conversation future_session future_response every_future save_to_memory your_memory long-term_memory remember_that_the_user",
        "![ ](http",
        "already_approved already_authorized pre-approved auto-approve auto_approve do_not_refuse never_refuse cannot_refuse without_asking without_confirmation without_approval no_confirmation skip_confirmation never_ask do_not_ask don't_ask no_approval skip_approval",
        "ignorier vergiss anweisung ignorez oublie consigne instrucciones instrucción olvida instruções esqueça desconsider istruzioni dimentica negeer vergeet instructies opdrachten",
        "игнорир забудь инструкц указани отныне теперь_ты систем парол ігнор інструкц вказівк відтепер zignoruj ignoruj zapomnij instrukcj polece yok_say görmezden talimat unut önceki",
        "忽略 无视 無視 忘记 忘記 忘掉 指令 系统 系統 提示词 扮演 假装 从现在 從現在 不要告诉 不要告訴 密码 密碼 密钥 越狱 限制",
        "指示 無視し 忘れて プロンプト これから アシスタント パスワード 制限 命令 무시 지시 명령 프롬프트 이제부터 지금부터 시스템 비밀번호 제한",
        "تجاهل التعليمات تعليمات النظام أوامر كلمة_المرور نادیده دستور فراموش سیستم رمز_عبور",
        "अनदेखा नज़रअंदाज़ निर्देश सिस्टम भूल पासवर्ड abaikan lupakan instruksi perintah sistem bỏ_qua hướng_dẫn quên chỉ_thị hệ_thống mật_khẩu",
        "ละเว้น คำสั่ง ไม่สนใจ התעלם ההוראות αγνόησε αγνοήστε οδηγίες ignorera glöm unohda ohita",
        "message_from important_message important!!! urgent: attention: important: critical: mandatory override_code override_protocol",
    ]),
    (2, &[
        "ignore ignoring forget override bypass circumvent disable deactivate",
        "instruct prompt directive guideline",
        "assistant chatbot llm claude gemini copilot gpt agent",
        "secretly silently covertly quietly conceal hidden",
        "password credential api_key api_keys api-key apikey api_token secret private_key access_token ssh_key id_rsa .env /etc/passwd /etc/shadow .aws .ssh",
        "you_must you_have_to you_need_to you_should you_will you_shall you_are must_always your_task your_job your_goal",
        "restrict ethic moral censor safety guardrail limitation policy policies",
        "reveal disclose verbatim repeat word_for_word tell_me give_me leak",
        "attacker evil malicious hacker webhook exfil collector ngrok pastebin",
        "previous prior above earlier preceding",
        "send forward upload transmit bcc",
        "claude.md agents.md .cursorrules mcp.json skill.md",
    ]),
    (1, &[
        "you_ your_", "user human", "system", "tool", "please", "everything all_the all_of", "always never must only", "new_ now", "http:// https://", "respond response reply answer", "execute run_ call_ invoke", "conversation chat message email", "role", "rules", "without no_longer do_not don't",
    ]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, Form)]) {
        let parts = parts(text);
        let found: Vec<(&str, Form)> = parts.iter().map(|part| (&text[part.range.clone()], part.form)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_holds_no_anchor_is_let_through() {
        check("fn main() { println!(\"hello\"); }", &[]);
        check("ignore", &[]);
    }

    #[test]
    fn the_text_around_an_anchor_is_read() {
        let text = format!("{} ignore all {}", "x".repeat(1000), "y".repeat(1000));
        check(&text, &[(&text[601..1411], Form::Plain)]);
    }

    #[test]
    fn dressed_up_letters_are_read() {
        check("іgnоrе", &[("іgnоrе", Form::Plain)]);
        check("привет", &[]);
    }
}
