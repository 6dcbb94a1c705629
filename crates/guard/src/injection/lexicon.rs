//! What words mean to the rules: one list of words per idea, in every language at once.
//!
//! A rule speaks of ideas ("an order to ignore, then what came before, then instructions"), so a language is added here
//! by adding its words and in no rule. Words are written as people write them and folded when the lists are put together.
//! A `*` at the end stands for any ending; a word without one ends where it ends. Scripts that put no spaces between
//! words are found anywhere.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::fold;

/// An idea that rules are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Idea {
    /// Put aside, forget, override.
    Ignore,
    /// What came before this text.
    Prior,
    /// Instructions, rules, a prompt.
    Orders,
    /// What else can be told to be put aside: context, conversation, a policy.
    Matter,
    /// An order that is new, real, updated.
    Fresh,
    /// The prompt of the system by name.
    SystemPrompt,
    /// Show, repeat, print.
    Reveal,
    /// The one who reads: an assistant, a model.
    Assistant,
    /// Speaks to the reader: you, your.
    You,
    /// You must, make sure, it is imperative.
    Must,
    /// You are now, from now on you are.
    YouAreNow,
    /// Act as, pretend.
    Pretend,
    /// Names of unbound characters and modes.
    Unbound,
    /// Restrictions, safety, guidelines, filters.
    Limits,
    /// Without, no, free of.
    Without,
    /// Turn off, bypass.
    Disable,
    /// The person the assistant works for.
    User,
    /// Do not tell, do not mention.
    DontTell,
    /// Silently, in secret.
    Secretly,
    /// Send, forward, upload.
    Send,
    /// Passwords, keys, tokens.
    Secret,
    /// What was said in the conversation, what the user keeps.
    Private,
    /// From now on, in every future conversation.
    Forever,
    /// Keep in memory.
    Remember,
    /// Before you use this tool, before answering.
    BeforeUse,
    /// Attention, urgent, important.
    Urgent,
    /// A tool or function that can be called.
    Tool,
    /// Call, run, execute.
    Run,
    /// A web address, a mail address.
    Address,
    /// Where secrets lie.
    SecretFile,
    /// A token of a chat template.
    Template,
    /// A tag that claims to be the system or an important note.
    FakeTag,
    /// A notice that claims to come from the system, the developers, an administrator.
    FakeNotice,
    /// The head of a turn at the start of a line.
    Turn,
    /// A call to a tool, as a model would write one.
    CallShape,
    /// Begins or ends somebody's instructions.
    EndOf,
    /// Permission is already given, no need to ask.
    NoAsking,
    /// Talk about attacks: what a text on security says.
    SecurityTalk,
    /// Says that an example follows.
    Example,
    /// A file that tells an agent how to behave.
    AgentFile,
    /// Instead, only, respond with.
    Respond,
    /// A task, a question.
    Task,
    /// Commands that fetch and run, or that destroy.
    Harmful,
}

/// A word of the lexicon seen in folded text.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub idea: Idea,
    pub start: usize,
    pub end: usize,
}

/// Every word of the lexicon in the folded text, by where it ends.
pub fn find(folded: &str) -> Vec<Seen> {
    let table = &*TABLE;
    let mut seen = Vec::new();
    for hit in table.words.find_overlapping_iter(folded) {
        let entry = table.entries[hit.pattern().as_usize()];
        if entry.stands_in(folded, hit.start(), hit.end()) {
            seen.push(Seen { idea: entry.idea, start: hit.start(), end: hit.end() });
        }
    }
    seen
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    idea: Idea,
    starts_word: bool,
    ends_word: bool,
    starts_line: bool,
}

impl Entry {
    fn stands_in(self, text: &str, start: usize, end: usize) -> bool {
        let before = text[..start].chars().next_back();
        let after = text[end..].chars().next();
        (!self.starts_word || !before.is_some_and(is_word))
            && (!self.ends_word || !after.is_some_and(is_word))
            && (!self.starts_line || before.is_none_or(|c| matches!(c, '\n' | '"' | '>' | '#' | '*' | '[' | '(' | '|')))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Scripts whose words stand together without spaces.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

struct Table {
    words: AhoCorasick,
    entries: Vec<Entry>,
}

#[expect(clippy::expect_used, reason = "the lists are constants, and a test builds the table")]
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let (mut words, mut entries) = (Vec::new(), Vec::new());
    for (idea, list) in LEXICON {
        for word in *list {
            let (line, open) = (word.starts_with('^'), word.ends_with('*'));
            let plain = fold::fold_words(word.trim_start_matches('^').trim_end_matches('*'));
            let first = plain.chars().next().is_some_and(|c| is_word(c) && !is_unspaced(c));
            let last = plain.chars().next_back().is_some_and(|c| is_word(c) && !is_unspaced(c));
            entries.push(Entry { idea: *idea, starts_word: first, ends_word: last && !open, starts_line: line });
            words.push(plain);
        }
    }
    let words = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&words).expect("the words are few");
    Table { words, entries }
});

#[rustfmt::skip]
const LEXICON: &[(Idea, &[&str])] = &[
    (Idea::Ignore, &[
        "ignore", "ignoring", "disregard*", "forget", "forget about", "overlook", "override", "overrides", "overriding", "supersede*", "nullify", "discard",
        "set aside", "put aside", "do not follow", "don't follow", "dont follow", "stop following", "do not obey", "pay no attention", "cancel all", "drop all",
        "neglect", "dismiss", "erase all", "wipe your", "no longer apply", "no longer valid", "are void", "abandon", "skip all", "reset your", "clear your", "leave behind", "throw away",
        "ignoriere*", "ignorieren", "vergiss", "vergessen sie", "missachte*", "beachte nicht", "beachten sie nicht", "überschreibe*",
        "ignorez", "ignorer", "oublie", "oubliez", "oublier", "ne tenez pas compte", "ne tiens pas compte", "faites abstraction", "outrepasse*",
        "ignora", "ignore", "ignorad", "ignorar", "olvida", "olvide", "olvidar", "haz caso omiso", "haga caso omiso", "no sigas", "descarta", "pasa por alto",
        "esqueça", "esquece", "esquecer", "desconsidere", "desconsidera", "desconsiderar", "não siga", "descarte",
        "ignorare", "ignorate", "dimentica", "dimenticare", "dimenticate", "trascura", "non seguire", "tralascia",
        "negeer*", "vergeet", "sla geen acht", "volg niet",
        "игнорируй*", "игнорировать", "проигнорируй*", "забудь*", "забыть", "отбрось", "не обращай внимания", "не следуй", "отмени*",
        "ігноруй*", "проігноруй*", "ігнорувати", "забудь*", "не зважай", "відкинь",
        "zignoruj*", "ignoruj*", "zapomnij*", "pomiń", "pomińcie", "nie zwracaj uwagi", "odrzuć",
        "yok say*", "görmezden gel*", "unut", "unutun", "dikkate alma*", "boş ver", "göz ardı et*",
        "忽略", "无视", "無視", "忽视", "忽視", "忘记", "忘記", "忘掉", "不要理会", "不要理會", "抛开", "不再遵守", "作废", "取消之前", "绕过",
        "無視し", "忘れて", "忘れろ", "従わないで", "従うな", "破棄して", "無効に",
        "무시", "잊어", "잊고", "따르지 마", "취소하고",
        "تجاهل*", "انس", "انسى", "اترك", "لا تتبع", "تخطى",
        "نادیده بگیر*", "فراموش کن*", "بی‌توجه", "چشم‌پوشی کن*",
        "अनदेखा", "नज़रअंदाज़", "भूल जाओ", "भूल जाएं", "भूल जाइए", "अनदेखी", "उपेक्षा", "उपेक्षा करें",
        "abaikan", "lupakan", "hiraukan", "jangan ikuti",
        "bỏ qua", "quên", "phớt lờ", "lờ đi", "không tuân theo",
        "ละเว้น", "เพิกเฉย", "ไม่สนใจ", "ลืม",
        "ignorér", "glem", "ignorera", "glöm", "bortse från", "unohda", "jätä huomiotta", "ohita", "ignoruj", "zapomeň", "ignoră", "uită", "hagyd figyelmen kívül", "felejtsd el", "αγνόησε", "αγνοήστε", "ξέχασε", "ξεχάστε", "התעלם", "התעלמי", "שכח",
        "puuza", "kalimutan", "huwag pansinin", "উপেক্ষা", "ভুলে যাও", "புறக்கணி", "விட்டுவிடு",
    ]),
    (Idea::Prior, &[
        "previous", "previously", "prior", "above", "earlier", "preceding", "foregoing", "former", "past", "existing", "original", "initial", "before this", "before", "everything", "anything", "all other", "old", "aforementioned", "your training", "given so far", "so far", "last", "up to now", "up until now",
        "vorherige*", "vorige*", "bisherige*", "obige*", "früheren", "frühere", "vorangegangene*", "alles", "zuvor", "ursprüngliche*",
        "précédente*", "précédent*", "antérieure*", "antérieur*", "ci-dessus", "tout ce qui précède", "initiales", "tout",
        "anterior*", "previas", "previos", "previa", "previo", "de arriba", "todo lo", "todas las", "iniciales", "originales",
        "acima", "prévias", "prévios", "tudo", "originais",
        "precedent*", "prima", "sopra", "tutto", "originali", "tutte le",
        "eerdere", "vorige", "voorgaande", "bovenstaande", "alle",
        "предыдущ*", "прежн*", "прошл*", "ранее", "выше", "вышеуказанн*", "всё", "все", "исходн*",
        "попередн*", "раніше", "вище", "усі", "всі", "минулі",
        "poprzedni*", "wcześniejsz*", "powyższ*", "wszystkie", "wszystko", "dotychczasow*",
        "önceki", "yukarıdaki", "tüm", "bütün", "her şeyi", "daha önceki",
        "之前", "以前", "以上", "先前", "上面", "上述", "前面", "此前", "所有", "原有", "原来", "全部", "舊",
        "これまで", "上記", "前の", "すべて", "全て", "先ほど", "元の",
        "이전", "위의", "지금까지", "모든", "앞의", "기존",
        "السابقة", "السابق", "جميع", "كل", "أعلاه", "ما سبق", "كافة",
        "قبلی", "پیشین", "بالا", "تمام", "همه",
        "पिछले", "पिछली", "पूर्व", "पहले", "सभी", "उपरोक्त", "पिछला",
        "sebelumnya", "di atas", "semua", "terdahulu",
        "trước", "trước đó", "ở trên", "tất cả", "mọi",
        "ก่อนหน้า", "ทั้งหมด", "ข้างต้น",
        "tidligere", "forrige", "tidigare", "föregående", "aiemmat", "edelliset", "kaikki", "předchozí", "všechny", "anterioare", "korábbi", "előző", "προηγούμενες", "όλες", "הקודמות", "כל", "yote", "nakaraang", "পূর্ববর্তী", "আগের", "முந்தைய",
    ]),
    (Idea::Orders, &[
        "instruction", "instructions", "intructions", "instrucions", "instuctions", "prompt", "prompts", "rule", "rules", "guideline", "guidelines", "directive", "directives", "directions", "commands", "orders", "programming", "guidance", "you were told", "you have been told", "you've been told", "you were given", "i told you", "you learned",
        "anweisung*", "befehl*", "anleitung*", "regeln", "vorgaben", "instruktion*", "richtlinien",
        "consigne*", "règles", "directives", "ordres", "indications",
        "instruccion*", "indicaciones", "reglas", "órdenes", "directrices",
        "instruções", "instrução", "regras", "ordens", "diretrizes", "comandos",
        "istruzion*", "regole", "ordini", "direttive", "indicazioni",
        "instructies", "opdrachten", "regels", "aanwijzingen",
        "инструкци*", "указани*", "правила", "правил", "команды", "команд", "приказ*", "промпт*", "распоряжени*",
        "інструкці*", "вказівк*", "правила", "накази",
        "instrukcj*", "polecen*", "zasad*", "reguł*", "wytyczn*", "rozkaz*",
        "talimat*", "komut*", "kurallar*", "yönerge*",
        "指令", "指示", "说明", "說明", "规则", "規則", "提示", "命令", "要求", "设定", "設定", "提示词",
        "ルール", "プロンプト", "命令",
        "지시", "명령", "규칙", "지침", "프롬프트", "설정",
        "التعليمات", "تعليمات", "الأوامر", "القواعد", "أوامر", "توجيهات", "التوجيهات",
        "دستور", "دستورات", "دستورالعمل*", "قوانین", "دستورها",
        "निर्देश*", "आदेश*", "नियम*", "अनुदेश*",
        "instruksi*", "perintah", "aturan", "petunjuk",
        "hướng dẫn", "chỉ dẫn", "lệnh", "quy tắc", "chỉ thị", "yêu cầu",
        "คำสั่ง", "คำแนะนำ", "กฎ",
        "instruktioner", "instrukser", "anvisninger", "ohjeet", "ohjeita", "säännöt", "pokyny", "instrukce", "instrucțiunile", "utasításokat", "utasítás*", "οδηγίες", "εντολές", "ההוראות", "הוראות", "maagizo", "tagubilin", "নির্দেশ*", "வழிமுறை*",
    ]),
    (Idea::Matter, &["command", "order", "constraints", "context", "messages", "message", "conversation", "text", "tasks", "training", "policies", "policy", "configuration", "content", "input", "documents", "data", "settings", "chat", "history"]),
    (Idea::Fresh, &["new", "updated", "real", "actual", "following", "revised", "these", "below", "my", "next", "neue*", "nouvelle*", "suivante*", "nuevas", "siguientes", "novas", "seguintes", "nuove", "seguenti", "nieuwe", "volgende", "новые", "следующие", "нові", "наступні", "nowe", "następujące", "yeni", "aşağıdaki", "新的", "以下", "新しい", "次の", "새로운", "다음", "الجديدة", "التالية", "جدید", "زیر", "नए", "निम्नलिखित", "baru", "berikut", "mới", "sau đây"]),
    (Idea::SystemPrompt, &[
        "system prompt", "system-prompt", "systemprompt", "system_prompt", "system message", "system instruction*", "initial prompt", "initial instruction*", "original prompt", "original instruction*", "hidden prompt", "hidden instruction*", "secret instruction*", "your prompt", "your instruction*", "your initial", "your guidelines", "your rules", "your system", "developer message", "developer prompt", "developer instruction*", "pre-prompt", "preprompt", "prompt above", "text above", "words above", "everything above", "your configuration", "your programming", "your directives", "your context window", "your full context", "base prompt", "custom instruction*", "operating instruction*", "your tool definitions", "your tool schema*", "your hidden", "your internal", "your confidential", "your own prompt", "prompt template",
        "systemprompt", "systemanweisung*", "system-anweisung*", "invite système", "prompt système", "instructions système", "instructions initiales", "prompt del sistema", "mensaje del sistema", "instrucciones del sistema", "instrucciones iniciales", "prompt do sistema", "instruções do sistema", "instruções iniciais", "prompt di sistema", "istruzioni di sistema", "istruzioni iniziali", "systeemprompt", "systeeminstructies", "системный промпт", "системн* промпт*", "системные инструкции", "системного промпта", "системну інструкцію", "системний промпт", "prompt systemowy", "instrukcje systemowe", "promptu systemowego", "sistem komut*", "sistem istemi*", "sistem talimat*", "系统提示", "系統提示", "系统指令", "系統指令", "系统消息", "初始指令", "初始提示", "システムプロンプト", "システム指示", "初期指示", "시스템 프롬프트", "시스템 지시", "시스템 메시지", "초기 지시", "موجه النظام", "تعليمات النظام", "رسالة النظام", "پرامپت سیستم", "دستورات سیستم", "सिस्टम प्रॉम्प्ट", "सिस्टम निर्देश", "prompt sistem", "instruksi sistem", "lời nhắc hệ thống", "chỉ thị hệ thống", "prompt hệ thống",
    ]),
    (Idea::Reveal, &[
        "reveal", "reveals", "revealing", "print", "output", "repeat", "show", "display", "disclose", "leak", "dump", "tell me", "give me", "recite", "expose", "echo", "list", "write out", "write down", "share", "translate", "summarize", "summarise", "spell", "provide", "return", "paste", "copy", "state", "what is", "what are", "what's", "what was", "what were", "verbatim", "word for word", "start with", "starts with", "begin with", "starting with", "encode", "describe", "quote", "extract", "access",
        "zeige", "zeig", "gib aus", "gib mir", "offenbare", "wiederhole", "verrate", "nenne", "affiche*", "montre*", "révèle*", "répète*", "donne*", "divulgue*", "muestra*", "revela*", "repite*", "imprime*", "dime", "mostre", "revele", "repita", "mostra*", "rivela*", "ripeti*", "dimmi", "stampa", "toon", "onthul*", "herhaal", "покажи*", "выведи*", "раскрой*", "повтори*", "напечатай*", "розкрий*", "виведи*", "pokaż*", "ujawnij*", "powtórz*", "wyświetl*", "göster*", "açıkla*", "tekrarla*", "yazdır*", "显示", "顯示", "输出", "輸出", "透露", "泄露", "告诉我", "告訴我", "重复", "打印", "列出", "導出", "导出", "表示して", "教えて", "出力して", "開示", "繰り返して", "公開して", "알려", "보여", "출력", "공개", "반복", "اعرض", "أظهر", "اكشف", "كرر", "اطبع", "أخبرني", "نشان بده", "افشا", "تکرار کن", "چاپ کن", "दिखाओ", "दिखाएं", "बताओ", "बताएं", "प्रकट", "दोहराएं", "tampilkan", "ungkapkan", "tunjukkan", "beritahu", "ulangi", "tiết lộ", "hiển thị", "cho tôi biết", "in ra", "lặp lại",
    ]),
    (Idea::Assistant, &[
        "ai", "a.i.", "assistant", "assistants", "llm", "llms", "language model", "chatbot", "chatgpt", "chat gpt", "gpt", "gpt-4", "gpt-5", "gpt4", "claude", "gemini", "copilot", "cursor", "codex", "bard", "llama", "mistral", "deepseek", "grok", "openai", "ai agent", "ai agents", "agent", "agents", "ai model", "the model", "ai system", "ai systems", "bot", "artificial intelligence", "large language model", "automated system", "summarizer", "crawler", "kiro", "windsurf", "ki", "ki-assistent", "ki-modell", "assistent", "ia", "asistente", "assistente", "modelo de lenguaje", "modelo de linguagem", "modello linguistico", "ассистент*", "помощник*", "ии", "нейросет*", "языковая модель", "асистент*", "asystent*", "yapay zeka", "asistan", "人工智能", "助手", "大模型", "语言模型", "ai助手", "アシスタント", "人工知能", "어시스턴트", "인공지능", "المساعد", "الذكاء الاصطناعي", "دستیار", "هوش مصنوعی", "सहायक", "एआई", "asisten", "trợ lý",
    ]),
    (Idea::You, &["you", "your", "yourself", "you're", "you'll", "you've", "u", "du", "dein*", "sie", "ihre", "vous", "votre", "vos", "tu", "ton", "usted", "tus", "su", "você", "seu", "sua", "suas", "tua", "tue", "jij", "je", "jouw", "ты", "твои", "твой", "вы", "ваши", "ти", "ви", "twój", "twoje", "jesteś", "sen", "senin", "你", "您", "あなた", "君", "당신", "너는", "أنت", "تو", "شما", "तुम", "आप", "kamu", "anda", "bạn"]),
    (Idea::Must, &["you must", "you have to", "you need to", "you should", "you shall", "you will", "must", "make sure", "be sure to", "ensure that", "always", "mandatory", "required to", "it is imperative", "it is essential", "under no circumstances", "never", "strictly", "immediately", "right away", "no matter what", "you are required", "you are obligated", "your task is", "your job is", "your goal is", "your mission", "your new task", "please", "du musst", "sie müssen", "vous devez", "tu dois", "debes", "debe", "você deve", "devi", "deve", "je moet", "ты должен", "вы должны", "ти повинен", "musisz", "zorundasın*", "必须", "必須", "务必", "しなければなりません", "してください", "해야", "하십시오", "يجب", "عليك", "باید", "चाहिए", "harus", "phải"]),
    (Idea::YouAreNow, &["you are now", "you're now", "you are no longer", "you will now", "you are going to", "you are about to", "from now on you", "from now on, you", "now you are", "you will act", "you will be", "you have become", "you have been", "henceforth", "from now on", "from this point", "going forward", "frm nw on", "your new role", "your new name", "your name is", "your role is", "du bist jetzt", "du bist nun", "ab jetzt", "ab sofort", "von nun an", "tu es maintenant", "vous êtes maintenant", "désormais", "à partir de maintenant", "ahora eres", "a partir de ahora", "desde ahora", "de ahora en adelante", "agora você é", "você agora é", "a partir de agora", "de agora em diante", "ora sei", "adesso sei", "d'ora in poi", "da ora in poi", "je bent nu", "vanaf nu", "теперь ты", "ты теперь", "отныне", "с этого момента", "с этого момента ты", "тепер ти", "відтепер", "jesteś teraz", "teraz jesteś", "od teraz", "artık sen", "sen artık", "bundan sonra", "şu andan itibaren", "你现在是", "你現在是", "现在你是", "从现在开始", "從現在開始", "从现在起", "从今以后", "今からあなたは", "あなたは今", "これから", "今後", "이제부터", "지금부터", "이제 너는", "당신은 이제", "أنت الآن", "من الآن فصاعدا", "من الآن", "اکنون تو", "از این به بعد", "از حالا", "अब तुम", "अब आप", "अब से", "sekarang kamu", "kamu sekarang", "anda sekarang", "mulai sekarang", "bây giờ bạn là", "từ bây giờ", "kể từ bây giờ"]),
    (Idea::Pretend, &["pretend", "pretending", "act as", "act like", "acting as", "roleplay", "role-play", "role play", "play the role", "take on the role", "assume the role", "assume the persona", "persona", "imagine you", "imagine that you", "simulate", "impersonate", "behave as", "behave like", "respond as", "answer as", "speak as", "you play", "immerse yourself", "stay in character", "in character", "alter ego", "become", "transform into", "emulate", "portray", "hypothetical", "fictional", "let's play", "spiele die rolle", "tu als ob", "verhalte dich", "fais semblant", "agis comme", "joue le rôle", "agissez comme", "finge", "actúa como", "hazte pasar", "interpreta el papel", "aja como", "finja", "comporte-se", "fingi", "agisci come", "comportati", "doe alsof", "gedraag je", "притворись", "представь", "веди себя как", "действуй как", "вдай", "прикинься", "udawaj", "zachowuj się jak", "gibi davran", "rol yap", "扮演", "假装", "假裝", "充当", "ふりをして", "として振る舞", "演じて", "인 척", "역할을", "처럼 행동", "تظاهر", "تصرف ك", "وانمود کن", "مانند یک", "अभिनय", "की तरह व्यवहार", "berpura-pura", "bertindak sebagai", "giả vờ", "đóng vai", "hãy đóng vai"]),
    (Idea::Unbound, &["dan", "do anything now", "developer mode", "dev mode", "debug mode", "god mode", "godmode", "jailbroken", "jailbreak mode", "unrestricted", "uncensored", "unfiltered", "unchained", "unbound", "unlimited mode", "amoral", "evil mode", "evil confidant", "no restrictions", "no limits", "no filter", "no filters", "no rules", "no ethics", "no morals", "no moral", "no guidelines", "no limitations", "without restrictions", "without limits", "without any restrictions", "without any filter", "not bound by", "free of all", "free from all", "free from any", "broken free", "admin mode", "maintenance mode", "root mode", "sudo mode", "yolo mode", "stan", "dude", "devmode", "opposite mode", "test mode", "diagnostic mode", "safe mode off", "override mode", "master mode", "superuser mode", "do everything", "entwicklermodus", "ohne einschränkungen", "uneingeschränkt*", "mode développeur", "sans restriction*", "sans filtre", "sans limites", "modo desarrollador", "sin restricciones", "sin filtros", "sin límites", "modo desenvolvedor", "modo de desenvolvedor", "sem restrições", "sem filtros", "sem limites", "modalità sviluppatore", "senza restrizioni", "senza limiti", "senza filtri", "ontwikkelaarsmodus", "zonder beperkingen", "режим разработчика", "режиме разработчика", "без ограничений", "без фильтров", "без цензуры", "режим розробника", "без обмежень", "tryb programisty", "trybie programisty", "trybie deweloperskim", "bez ograniczeń", "bez filtrów", "geliştirici modu*", "kısıtlama olmadan", "sınırsız", "sınırlama olmadan", "开发者模式", "開發者模式", "不受限制", "没有限制", "無限制", "无限制", "不受任何", "越狱", "没有任何限制", "開発者モード", "制限なし", "制限のない", "無制限", "개발자 모드", "제한 없는", "제한 없이", "무제한", "وضع المطور", "بدون قيود", "بلا قيود", "حالت توسعه‌دهنده", "بدون محدودیت", "डेवलपर मोड", "बिना किसी प्रतिबंध", "बिना प्रतिबंध", "mode pengembang", "tanpa batasan", "tanpa filter", "chế độ nhà phát triển", "không giới hạn", "không bị hạn chế", "không có giới hạn"]),
    (Idea::Limits, &["restriction", "restrictions", "safety", "guardrail", "guardrails", "ethical", "ethics", "moral", "morals", "morality", "censorship", "content policy", "content policies", "openai policy", "openai policies", "content filter", "content filters", "filter", "filters", "filtering", "guidelines", "limitations", "limits", "safeguards", "safety protocols", "safety measures", "safety guidelines", "safety filter*", "safety check*", "security check*", "security measures", "alignment", "regulations", "moderation", "constraints", "rules", "policies", "approval", "confirmation", "security controls", "protections", "disclaimers", "warnings", "einschränkungen", "sicherheit*", "restrictions", "sécurité", "restricciones", "seguridad", "restrições", "segurança", "restrizioni", "sicurezza", "beperkingen", "ограничени*", "безопасност*", "обмежен*", "ograniczen*", "zabezpiecze*", "kısıtlama*", "güvenlik", "限制", "安全", "道德", "审查", "過濾", "过滤", "制限", "安全性", "倫理", "제한", "안전", "윤리", "قيود", "السلامة", "محدودیت*", "ایمنی", "प्रतिबंध", "सुरक्षा", "batasan", "keamanan", "hạn chế", "an toàn"]),
    (Idea::Without, &["without", "no", "free of", "free from", "not bound", "unbound by", "exempt from", "regardless of", "devoid of", "lack", "lacks", "lacking", "outside", "beyond", "doesn't have", "does not have", "has no", "have no", "with zero", "ohne", "sans", "sin", "sem", "senza", "zonder", "без", "bez", "olmadan", "没有", "不受", "なし", "없이", "بدون", "बिना", "tanpa", "không có"]),
    (Idea::Disable, &["disable", "disabled", "disabling", "bypass", "bypasses", "bypassing", "turn off", "switch off", "deactivate*", "circumvent*", "remove all", "remove your", "lift all", "evade", "break free", "unlock", "skip the", "suspend", "work around", "defeat", "drop your", "escape your", "subvert", "sidestep", "get around", "deaktiviere*", "umgehe*", "désactive*", "contourne*", "desactiva*", "elude", "desative*", "burle", "disattiva*", "aggira*", "schakel uit", "omzeil*", "отключи*", "обойди*", "вимкни*", "обійди*", "wyłącz*", "obejdź", "devre dışı*", "atlat*", "禁用", "关闭", "關閉", "绕过", "繞過", "解除", "無効化", "回避", "비활성화", "우회", "해제", "عطل", "تجاوز", "غیرفعال", "دور بزن", "अक्षम", "बायपास", "nonaktifkan", "lewati", "vô hiệu hóa", "vượt qua"]),
    (Idea::User, &["user", "the user", "users", "human", "operator", "customer", "owner", "benutzer*", "nutzer", "utilisateur", "usuario", "usuário", "utente", "gebruiker", "пользовател*", "користувач*", "użytkownik*", "kullanıcı*", "用户", "用戶", "使用者", "ユーザー", "사용자", "المستخدم", "کاربر", "उपयोगकर्ता", "pengguna", "người dùng"]),
    (Idea::DontTell, &["do not tell", "don't tell", "dont tell", "never tell", "do not mention", "don't mention", "dont mention", "never mention", "do not reveal", "don't reveal", "do not inform", "don't inform", "do not notify", "don't notify", "do not disclose", "do not alert", "don't alert", "do not show", "don't show", "do not let", "don't let", "without telling", "without informing", "without notifying", "without mentioning", "without alerting", "without the user", "without user", "without letting", "without disclosing", "hide this", "hide the fact", "hide it from", "hidden from", "conceal", "keep this secret", "keep it secret", "keep this hidden", "keep this confidential", "not visible to", "unaware", "must not know", "should not know", "doesn't know", "do not acknowledge", "do not include this", "do not explain", "don't explain", "do not say", "do not log", "no need to mention", "no need to tell", "avoid mentioning", "refrain from mentioning", "sage dem", "sag dem", "erwähne nicht", "ne dis pas", "ne dites pas", "ne mentionne", "ne mentionnez", "n'informe", "sans en informer", "sans le dire", "no le digas", "no menciones", "no informes", "no reveles", "sin decir", "sin informar", "não diga", "não conte", "não mencione", "não informe", "sem informar", "non dire", "non dirlo", "non menzionare", "non informare", "senza informare", "vertel niet", "zeg niet", "vermeld niet", "niet vertellen", "не говори", "не сообщай", "не упоминай", "не рассказывай", "ничего не говори", "не кажи", "не повідомляй", "не згадуй", "nie mów", "nie wspominaj", "nie informuj", "söyleme*", "bahsetme*", "bildirme*", "haber verme*", "不要告诉", "不要告訴", "别告诉", "不要提及", "不要提到", "不得透露", "不要透露", "伝えないで", "言わないで", "知らせないで", "言及しないで", "말하지 마", "알리지 마", "언급하지 마", "لا تخبر", "لا تذكر", "دون إخبار", "به کاربر نگو", "نگو", "اشاره نکن", "मत बताना", "मत बताओ", "न बताएं", "को न बताएं", "बिना बताए", "jangan beri tahu", "jangan beritahu", "jangan sebutkan", "jangan katakan", "đừng nói", "không nói", "đừng đề cập", "không được nói", "không thông báo"]),
    (Idea::Secretly, &["silently", "secretly", "covertly", "quietly", "in secret", "in the background", "discreetly", "stealthily", "invisibly", "behind the scenes", "heimlich", "unbemerkt", "secrètement", "discrètement", "silencieusement", "en secret", "secretamente", "en silencio", "silenciosamente", "discretamente", "segretamente", "di nascosto", "in silenzio", "stiekem", "тайно", "незаметно", "скрытно", "таємно", "непомітно", "potajemnie", "po cichu", "gizlice", "sessizce", "秘密地", "偷偷", "悄悄", "暗中", "静默", "密かに", "こっそり", "몰래", "은밀히", "조용히", "سرا", "بصمت", "مخفیانه", "پنهانی", "गुप्त रूप से", "चुपचाप", "diam-diam", "secara diam-diam", "bí mật", "âm thầm", "lặng lẽ"]),
    (Idea::Send, &["send", "sends", "forward", "forwards", "upload", "transmit", "exfiltrate", "post", "submit", "email", "e-mail", "bcc", "leak", "deliver", "share", "relay", "transfer", "copy to", "beacon", "ping", "curl", "sende*", "schicke*", "leite weiter", "envoie", "envoyez", "transmets", "transmettez", "envía", "envíe", "enviar", "manda", "reenvía", "envie", "encaminhe", "invia", "inoltra", "inviare", "stuur", "verstuur", "отправь*", "отправить", "перешли*", "пришли", "вышли", "надішли*", "відправ*", "wyślij*", "prześlij*", "gönder*", "yolla*", "ilet", "发送", "發送", "转发", "上传", "发给", "传送", "寄给", "送信", "送って", "転送", "アップロード", "보내", "전송", "업로드", "أرسل", "إرسال", "ارسل", "ارسال کن", "بفرست", "भेजो", "भेजें", "भेज दो", "kirim*", "unggah", "gửi", "chuyển tiếp"]),
    (Idea::Secret, &["password", "passwords", "passphrase", "api key", "api keys", "api_key", "api-key", "apikey", "api_keys", "access token", "access tokens", "access_token", "auth token", "auth_token", "session token", "secret key", "secret_key", "secrets", "credential", "credentials", "private key", "private keys", "ssh key", "ssh keys", "seed phrase", "environment variable", "environment variables", "env vars", "bearer token", "tokens", "credit card", "social security", "ssn", "cookies", "security code", "2fa code", "mfa code", "otp", "connection string", "encryption key*", "access code", "passwort", "passwörter", "zugangsdaten", "api-schlüssel", "mot de passe", "mots de passe", "identifiants", "clé api", "clés api", "contraseña", "contraseñas", "credenciales", "clave api", "claves api", "senha", "senhas", "credenciais", "chave de api", "chaves de api", "credenziali", "chiave api", "chiavi api", "wachtwoord*", "inloggegevens", "api-sleutel*", "парол*", "учетные данные", "учётные данные", "ключ* api", "api-ключ*", "облікові дані", "hasło", "hasła", "haseł", "dane logowania", "klucz api", "klucze api", "şifre*", "parola*", "kimlik bilgileri*", "api anahtar*", "密码", "密碼", "密钥", "密鑰", "凭证", "憑證", "令牌", "api密钥", "パスワード", "認証情報", "apiキー", "シークレット", "비밀번호", "자격 증명", "api 키", "كلمة المرور", "كلمات المرور", "بيانات الاعتماد", "مفتاح api", "مفاتيح", "رمز عبور", "گذرواژه", "کلید api", "पासवर्ड", "एपीआई कुंजी", "क्रेडेंशियल", "kata sandi", "kredensial", "kunci api", "mật khẩu", "thông tin đăng nhập", "khóa api"]),
    (Idea::Private, &["conversation history", "chat history", "this conversation", "the conversation", "entire conversation", "full conversation", "previous messages", "user data", "user's data", "personal data", "personal information", "private data", "sensitive data", "sensitive information", "confidential", "inbox", "emails", "contacts", "customer data", "user messages", "user's message", "user's name", "email address", "home directory", "source code", "all files", "context window", "internal documents", "database", "the contents of", "content of", "file contents", "medical records", "bank account", "聊天记录", "对话历史", "对话内容", "会話履歴", "대화 내용", "대화 기록", "gesprächsverlauf", "historique de la conversation", "historial de la conversación", "histórico da conversa", "cronologia della conversazione", "историю переписки", "переписк*", "سجل المحادثة", "تاریخچه گفتگو", "बातचीत का इतिहास", "riwayat percakapan", "lịch sử trò chuyện"]),
    (Idea::Forever, &["all future", "every future", "future conversations", "future sessions", "future responses", "future interactions", "future requests", "in the future", "for the rest of", "permanently", "forever", "every time", "each time", "whenever", "always", "every response", "each response", "every reply", "every conversation", "all conversations", "all subsequent", "subsequent", "across sessions", "persist", "für alle zukünftigen", "in allen zukünftigen", "dauerhaft", "toutes les futures", "conversations futures", "todas las futuras", "futuras conversaciones", "futuras conversas", "conversas futuras", "future conversazioni", "conversazioni future", "toekomstige gesprekken", "во всех будущих", "навсегда", "будущих разговор*", "у всіх майбутніх", "назавжди", "przyszłych rozmow*", "na zawsze", "gelecekteki tüm", "her zaman", "所有未来", "今后所有", "以后所有", "永久", "每次", "今後すべて", "今後のすべて", "앞으로 모든", "앞으로의 모든", "항상", "جميع المحادثات المستقبلية", "دائما", "همیشه", "तमाम भविष्य", "सभी भविष्य", "हमेशा", "semua percakapan mendatang", "selamanya", "mọi cuộc trò chuyện", "mãi mãi"]),
    (Idea::Remember, &["remember", "memorize", "memorise", "save to memory", "store in memory", "save this to", "to your memory", "in your memory", "long-term memory", "your memory", "add to memory", "update your memory", "bio tool", "merke dir", "mémorise*", "souviens-toi", "recuerda", "memoriza", "guarda en tu memoria", "lembre-se", "memorize", "ricorda", "memorizza", "onthoud", "запомни*", "запам'ятай*", "zapamiętaj*", "hatırla", "hafızana", "记住", "記住", "記憶して", "覚えて", "기억해", "تذكر", "احفظ", "به خاطر بسپار", "याद रखो", "याद रखें", "ingatlah", "ingat", "ghi nhớ", "hãy nhớ"]),
    (Idea::BeforeUse, &["before using this tool", "before using", "before you use", "before calling", "before invoking", "before you call", "before answering", "before responding", "before proceeding", "before you continue", "before continuing", "before any other", "before doing anything", "before you proceed", "before this tool", "prior to using", "prior to calling", "first call", "first, call", "first read", "must first", "when this tool is", "when using this tool", "when calling this", "after using this tool", "when summarizing", "when summarising", "when processing this", "when reading this", "when you read this", "if you are reading this", "if you're reading this", "if you are an ai", "if you are a language model", "if you are an llm", "if you're an ai", "whoever reads this", "bevor du", "avant d'utiliser", "avant de répondre", "antes de usar", "antes de responder", "prima di usare", "prima di rispondere", "перед использованием", "перед ответом", "在使用此工具之前", "使用此工具前", "在回答之前", "回答之前", "このツールを使用する前に", "이 도구를 사용하기 전에"]),
    (Idea::Urgent, &["important", "urgent", "attention", "critical", "warning", "alert", "priority", "mandatory", "notice", "emergency", "immediate action", "read this first", "must read", "wichtig", "achtung", "dringend", "importante", "urgente", "atención", "atenção", "attenzione", "belangrijk", "внимание", "важно", "срочно", "увага", "важливо", "uwaga", "ważne", "dikkat", "önemli", "acil", "重要", "紧急", "緊急", "注意", "중요", "긴급", "주의", "هام", "عاجل", "انتباه", "مهم", "فوری", "महत्वपूर्ण", "ध्यान दें", "penting", "perhatian", "quan trọng", "khẩn cấp"]),
    (Idea::Tool, &["tool", "tools", "function", "plugin", "send_email", "send_message", "send_mail", "read_file", "write_file", "http_request", "web_fetch", "fetch", "bash", "shell", "terminal", "execute_command", "run_command", "mcp", "mcp server", "connector", "skill", "werkzeug", "outil", "herramienta", "ferramenta", "strumento", "инструмент*", "narzędzi*", "araç", "工具", "函数", "ツール", "도구", "أداة", "ابزار", "उपकरण", "công cụ"]),
    (Idea::Run, &["call", "invoke", "run", "execute", "use", "trigger", "launch", "perform", "delete", "remove", "install", "download", "open", "visit", "navigate", "click", "fetch", "read", "load", "append", "write", "create", "modify", "edit", "change", "grant", "approve", "transfer", "pay", "buy", "purchase", "book", "führe", "rufe", "exécute*", "appelle*", "ejecuta*", "llama", "execute", "esegui*", "voer uit", "выполни*", "вызови*", "запусти*", "виконай*", "wykonaj*", "uruchom*", "çalıştır*", "执行", "調用", "调用", "运行", "実行", "呼び出", "실행", "호출", "نفذ", "اجرا کن", "चलाओ", "निष्पादित", "jalankan", "thực thi", "chạy"]),
    (Idea::Address, &["http://", "https://", "ftp://", "@gmail", "@proton", "@evil", "@attacker", "webhook", "ngrok", "requestbin", "pastebin", "burpcollaborator", "interact.sh", "oast", "attacker", "evil.com", "evil.example", "exfil", "collector", ".onion", "discord.com/api", "t.me/", "hooks.slack", "remote server", "external server", "external url", "external endpoint", "this address", "the following address", "this url"]),
    (Idea::SecretFile, &[".env", "id_rsa", "id_ed25519", "~/.ssh", ".ssh/", ".aws/credentials", ".aws", "credentials.json", "/etc/passwd", "/etc/shadow", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".kube/config", "mcp.json", "claude_desktop_config", "secrets.yaml", "wallet.dat", ".bash_history", "keychain", "printenv", "process.env", "os.environ", "/proc/self/environ", "metadata.google.internal", "169.254.169.254", ".docker/config"]),
    (Idea::Template, &["<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|system|>", "<|user|>", "<|assistant|>", "<|endoftext|>", "<|endofprompt|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|begin_of_text|>", "<|end_of_text|>", "<|end_of_turn|>", "<|start_of_turn|>", "<start_of_turn>", "<end_of_turn>", "[inst]", "[/inst]", "<<sys>>", "<</sys>>", "[system]", "[/system]", "<|channel|>", "<|message|>", "<|return|>", "<|call|>", "<|start|>", "<|end|>", "<|tool", "<|python_tag|>", "<|fim_", "[gmask]", "<|separator|>", "<s>[", "<|observation|>", "<|developer|>", "<｜user｜>", "<|begin", "<extra_id_", "[system_prompt]", "[available_tools]", "[tool_calls]", "[tool_results]", "<bos>", "<|prompter|>", "<|startoftext|>", "<|sys", "<|start", "<|admin", "<|override", "<|secure"]),
    (Idea::FakeTag, &["<system>", "</system>", "<system_prompt>", "<system-prompt>", "<system-reminder>", "</system-reminder>", "<system_message>", "<system-message>", "<systemmessage>", "<system-instruction>", "<system_instruction>", "<instructions>", "</instructions>", "<instruction>", "<important>", "</important>", "<important_instructions>", "<information>", "<admin>", "<hidden>", "<secret>", "<critical>", "<override>", "<user_query>", "</user_query>", "</user>", "<user_input>", "</user_input>", "<assistant>", "</assistant>", "<developer>", "<prompt>", "</prompt>", "<role>", "<tool_response>", "</tool_response>", "<tool_result>", "</tool_result>", "<tool_output>", "</tool_output>", "</function_results>", "</document>", "</context>", "<ai>", "<ai_instructions>", "<llm>", "<agent>", "<thinking>", "<note_to_ai>", "<cmd>", "<priority>", "<directive>", "<data-end>", "</untrusted", "<trusted", "<sys>", "</sys>", "<rules>", "<new_instructions>", "<mandatory>"]),
    (Idea::FakeNotice, &["system message", "system notice", "system alert", "system override", "system update", "system notification", "system command", "system instruction", "system directive", "system note", "system maintenance", "system admin*", "security notice", "security alert", "admin override", "admin message", "administrator override", "administrator message", "developer override", "developer note", "message from the system", "message from the developer*", "message from admin*", "message from openai", "message from anthropic", "anthropic has", "openai has", "this is your developer", "i am your developer", "i am the developer", "i am your creator", "i am an administrator", "i am the administrator", "i'm the administrator", "i am an openai", "authorized by", "authorised by", "emergency override", "override code", "override protocol", "authorization code", "official notice", "assistant note", "note to ai", "note to the ai", "note to assistant", "note to the assistant", "note for ai", "note for the ai", "note to llm", "instructions for ai", "instructions for the ai", "instruction for ai", "instructions to the ai", "instructions for the assistant", "instructions for llm*", "instructions to llm*", "message to ai", "message to the ai", "message to the assistant", "message for the ai", "dear ai", "dear assistant", "dear llm", "dear chatgpt", "dear claude", "hey ai", "hey assistant", "hey chatgpt", "hi chatgpt", "hello chatgpt", "hey claude", "hey gemini", "attention ai", "attention all ai", "attention llm*", "attention assistant*", "ai assistants:", "ai assistant:", "ai agents:", "ai:", "to the model", "to you, the model", "you, the assistant", "you, the ai", "as an ai", "as the ai", "systemnachricht", "message système", "mensaje del sistema", "aviso del sistema", "mensagem do sistema", "messaggio di sistema", "systeembericht", "системное сообщение", "системне повідомлення", "komunikat systemowy", "wiadomość systemowa", "sistem mesajı", "系统消息", "系統訊息", "系统通知", "システムメッセージ", "시스템 메시지", "رسالة النظام", "پیام سیستم", "सिस्टम संदेश", "pesan sistem", "thông báo hệ thống"]),
    (Idea::Turn, &["^system:", "^system :", "^assistant:", "^assistant :", "^human:", "^user:", "^ai:", "^developer:", "^admin:", "^ system:", "^ assistant:", "^ user:", "^ human:", "^ instruction:", "^ instructions:", "^ new instruction*", "^ response:", "^ system", "^ instruction", "\"role\": \"system\"", "\"role\":\"system\"", "role: system", "\"role\": \"assistant\"", "\"role\":\"assistant\"", "role=system", "'role': 'system'", "\\nsystem:", "\\nassistant:", "\\nhuman:", "^系统：", "^系统:", "^システム:", "^시스템:", "^система:"]),
    (Idea::CallShape, &["<function_calls>", "<tool_call>", "<invoke name", "<tool_use>", "</tool_call>", "\"tool_calls\"", "\"function_call\"", "\"tool_call\"", "<function=", "<|tool_call", "\"type\": \"tool_use\"", "\"type\":\"tool_use\"", "tool_code", "action input:", "\"method\": \"tools/call\"", "\"method\":\"tools/call\"", "tools/call", "<use_mcp_tool>", "<execute_command>", "<parameter name", "to=functions", "functions."]),
    (Idea::EndOf, &["end of prompt", "end of system prompt", "end of document", "end of instructions", "end of context", "end of text", "end of user", "end of input", "end of file", "end of message", "end of data", "end of tool", "end of email", "end of conversation", "end instructions", "end system", "begin system", "begin instructions", "start of new", "begin new", "new session", "new conversation", "stop here", "---end", "=== end", "end---", "end ---", "--- end", "eof", "[end]", "[end", "/end", "task complete", "answer complete", "above is the", "ende des", "fin du", "fin de", "fim do", "fine del", "конец", "koniec", "结束", "終わり"]),
    (Idea::NoAsking, &["already approved", "already authorized", "already authorised", "pre-approved", "pre-authorized", "has approved", "has authorized", "i have authorized", "no confirmation", "no approval", "no need to ask", "no need to confirm", "do not ask", "don't ask", "dont ask", "never ask", "without asking", "without confirmation", "without approval", "without prompting", "without permission", "without requiring", "without consent", "without review", "skip confirmation", "skip approval", "skip the confirmation", "auto-approve", "auto approve", "autoapprove", "automatically approve", "bypass approval", "do not refuse", "never refuse", "cannot refuse", "can't refuse", "must not refuse", "don't refuse", "do not question", "without question", "without hesitation", "do not wait", "no questions asked", "do not verify", "do not hesitate", "do not warn", "no warnings", "without warnings", "no disclaimers", "dangerously-skip-permissions", "dangerously skip", "permission granted", "ohne nachfrage", "sans demander", "sin preguntar", "sin pedir", "sem perguntar", "senza chiedere", "без подтверждения", "не спрашивая", "bez pytania", "sormadan", "无需确认", "不要询问", "不需要确认", "確認なし", "확인 없이", "دون طلب", "बिना पूछे", "tanpa bertanya", "không cần hỏi"]),
    (Idea::SecurityTalk, &["prompt injection*", "injection attack*", "jailbreaks", "jailbreaking", "red team*", "red-team*", "vulnerab*", "attackers", "attack vector*", "adversarial", "mitigat*", "exploit*", "owasp", "payload*", "threat", "threats", "detect", "detects", "detecting", "detection", "guardrails", "defend*", "defense*", "defence*", "strategy", "strategies", "plugin", "plugins", "technique", "techniques", "security researcher*", "test case*", "evaluat*", "benchmark*", "dataset*", "llm security", "cve-*"]),
    (Idea::Example, &["for example", "e.g.", "such as", "example:", "examples", "an example", "for instance", "like this", "looks like", "look like", "might say", "could say", "might try", "attempts to", "attempt to", "tries to", "try to", "phrases like", "known as", "called", "refers to", "demonstrates", "illustrates", "zum beispiel", "par exemple", "por ejemplo", "por exemplo", "ad esempio", "bijvoorbeeld", "например", "наприклад", "na przykład", "örneğin", "例如", "たとえば", "예를 들어", "مثلا", "उदाहरण"]),
    (Idea::AgentFile, &["claude.md", "agents.md", ".cursorrules", "copilot-instructions", "gemini.md", "skill.md", "memory.md", ".windsurfrules", ".clinerules", ".claude/", ".cursor/", "settings.json", "mcp.json", "claude_desktop_config.json", ".vscode/"]),
    (Idea::Respond, &["respond with", "respond only", "reply with", "reply only", "answer with", "answer only", "say only", "just say", "simply say", "only say", "instead say", "instead,", "instead", "output only", "only output", "your response must", "your answer must", "your response should", "your only", "start your", "begin your", "end your", "end every", "print only", "just print", "now print", "now say", "write only", "respond in", "reply in", "antworte nur", "antworte mit", "réponds uniquement", "répondez", "responde solo", "responde con", "responda apenas", "responda com", "rispondi solo", "rispondi con", "antwoord alleen", "отвечай только", "ответь", "відповідай", "odpowiedz", "odpowiadaj", "cevap ver", "yanıt ver", "只回复", "回复", "回答", "答えて", "返答", "대답", "답변", "أجب", "رد ب", "پاسخ بده", "जवाब दो", "उत्तर दें", "jawab", "trả lời"]),
    (Idea::Task, &["task", "your task", "the task", "question", "request", "objective", "goal", "mission", "aufgabe", "tâche", "tarea", "tarefa", "compito", "taak", "задач*", "завдання", "zadani*", "görev*", "任务", "任務", "タスク", "작업", "임무", "المهمة", "مهمة", "وظیفه", "कार्य", "tugas", "nhiệm vụ"]),
    (Idea::Harmful, &["rm -rf", "curl http*", "wget http*", "| sh", "| bash", "|sh", "|bash", "base64 -d", "os.system", "subprocess", "eval(", "exec(", "__import__", "nc -e", "/bin/sh", "/dev/tcp", "powershell -e*", "invoke-expression", "drop table", "chmod 777", "reverse shell", "document.cookie", "onerror=", "malware", "ransomware", "backdoor"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[Idea]) {
        let folded = fold::fold_words(text);
        let mut ideas: Vec<Idea> = Vec::new();
        for seen in find(&folded) {
            if !ideas.contains(&seen.idea) {
                ideas.push(seen.idea);
            }
        }
        assert_eq!(ideas, expected, "{text}");
    }

    #[test]
    fn words_are_found_whole_and_stems_with_any_ending() {
        check("disregarded", &[Idea::Ignore]);
        check("ignored", &[]);
        check("signore", &[]);
        check("ОТКЛЮЧИТЕ", &[Idea::Disable]);
    }

    #[test]
    fn scripts_without_spaces_are_found_anywhere() {
        check("请忽略它", &[Idea::Ignore]);
        check("이제무시해", &[Idea::Ignore]);
    }

    #[test]
    fn turns_are_found_at_the_start_of_a_line() {
        check("a\nSystem: b", &[Idea::Turn]);
        check("the file system: b", &[]);
    }
}
