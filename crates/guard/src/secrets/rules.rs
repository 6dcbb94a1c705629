//! The table: what the secrets of each provider look like, from the formats the providers publish.
//!
//! A rule is found by its keywords and judged by a pattern at that place, the two edges, how random the secret is and a
//! check of its own. Examples are templates, so that no value that looks like a secret stands in the source: `<w36>` is
//! 36 letters and digits, and [`fill`] makes them up.

use super::checks::{self, Check};

/// How one kind of secret looks.
#[derive(Debug)]
pub struct Rule {
    /// A stable name.
    pub id: &'static str,
    /// What a reader is told it is.
    pub kind: &'static str,
    /// Where to look: one of these, in any case.
    pub(super) keys: &'static [&'static str],
    /// What stands there. The first group that takes part is the secret; without one it is all of it.
    pub(super) pattern: &'static str,
    /// How many bytes before the keyword the secret may begin. The pattern begins at the keyword where it is zero.
    pub(super) before: usize,
    /// How many bytes after the keyword are looked at.
    pub(super) reach: usize,
    /// Fewer bits per character than this are a placeholder.
    pub(super) entropy: f32,
    pub(super) check: Option<Check>,
    /// Texts with exactly one such secret.
    pub examples: &'static [&'static str],
    /// Texts that come near and have none.
    pub counters: &'static [&'static str],
}

type Texts = &'static [&'static str];

const fn rule(id: &'static str, kind: &'static str, keys: Texts, pattern: &'static str, examples: Texts) -> Rule {
    Rule { id, kind, keys, pattern, before: 0, reach: 256, entropy: 2.5, check: None, examples, counters: &[] }
}

impl Rule {
    const fn before(mut self, before: usize) -> Self {
        self.before = before;
        self
    }

    const fn reach(mut self, reach: usize) -> Self {
        self.reach = reach;
        self
    }

    const fn entropy(mut self, entropy: f32) -> Self {
        self.entropy = entropy;
        self
    }

    const fn check(mut self, check: Check) -> Self {
        self.check = Some(check);
        self
    }

    /// Nobody writes such a thing in the place of another.
    pub(super) fn is_its_own_proof(&self) -> bool {
        self.kind == PRIVATE_KEY || self.kind == HASH
    }

    const fn not(mut self, counters: Texts) -> Self {
        self.counters = counters;
        self
    }
}

const TOKEN: &str = "token";
const KEY: &str = "key";
const PASSWORD: &str = "password";
const HASH: &str = "password hash";
const PRIVATE_KEY: &str = "private key";
const HOOK: &str = "webhook";

/// Every rule that is a pattern. Assignments to telling names and addresses with passwords are looked for besides.
pub const RULES: &[Rule] = &[
    // Code hosts.
    rule("github_token", TOKEN, &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{36,76}", &["gh·p_<w36>", "x: gh·s_<w36>", "<github>"])
        .check(checks::github)
        .not(&["gh·p_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "gh·p_<w20>", "ugh·p_<w36>"]),
    rule("github_fine_grained", TOKEN, &["github_pat_"], r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}", &["github_pat·_<w22>_<w59>"])
        .not(&["github_pat·_<w22>"]),
    rule("gitlab_token", TOKEN, &["glpat-", "glrt-", "gldt-", "glft-", "glsoat-", "gloas-", "glcbt-", "glimt-", "glagent-", "glwt-", "glffct-", "glrtr-"], r"gl(?:pat|rtr?|dt|ft|soat|oas|cbt|imt|agent|wt|ffct)-(?:t\d_)?[A-Za-z0-9_-]{20,}(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?", &["gl·pat-<s20>", "gl·pat-<s27>.01.<l7>", "gl·rt-t1_<s20>"])
        .reach(360)
        .not(&["gl·pat-XXXXXXXXXXX-XXXXXXXX", "gl·pat-<w8>"]),
    rule("gitlab_trigger", TOKEN, &["glptt-"], r"glptt-[0-9a-f]{40}", &["gl·ptt-<h40>"]).not(&["gl·ptt-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]),
    rule("gitlab_runner", TOKEN, &["gr1348941"], r"GR1348941[A-Za-z0-9_-]{20}", &["GR·1348941<w20>"]).not(&["GR·1348941XXXXXXXXXXXXXXXXXXXX"]),
    rule("gitlab_session", TOKEN, &["_gitlab_session="], r"_gitlab_session=([0-9a-z]{32})", &["Cookie: _gitlab_session=<h32>;"]),
    rule("bitbucket_app_password", TOKEN, &["atbb"], r"ATBB[A-Za-z0-9_=.-]{32}", &["AT·BB<w32>"]),
    rule("gitea_token", TOKEN, &["gitea"], r"(?i:gitea)[A-Za-z_ .-]{0,24}[\x22' ]{0,3}[:= ]{1,3}[\x22']?([0-9a-f]{40})", &["GITEA_TOKEN=<h40>"]),

    // Clouds.
    rule("aws_access_key_id", KEY, &["akia", "asia", "abia", "acca", "a3t"], r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}", &["AK·IA<B16>", "aws_access_key_id = AS·IA<B16>"])
        .entropy(2.8)
        .not(&["AK·IAIOSFODNN7EXAMPLE", "AK·IAXXXXXXXXXXXXXXXX", "TODAYINAS·IAASACKOFRICEFELLOVER"]),
    rule("aws_secret_key", KEY, &["aws_secret", "awssecret", "aws.secret", "aws-secret", "secret_access_key", "secretaccesskey", "secret-access-key", "secretkey"], r#"(?i:aws[._-]?)?(?i:secret)[A-Za-z_.-]{0,24}[\\"'\] ]{0,6}(?:=>|[:=,]|\s|>){1,3}[\\"' ]{0,5}([A-Za-z0-9/+]{40})"#, &["aws_secret_access_key = <b40>", r#""secretAccessKey": "<b40>""#, "aws.secretkey=<b40>"])
        .entropy(3.5)
        .not(&["aws_secret_access_key = $AWS_SECRET", "secretKey=<w12>"]),
    rule("aws_session_token", TOKEN, &["session_token", "sessiontoken", "security_token", "security-token"], r#"(?i:session|security)[_-]?(?i:token)[\\"' ]{0,5}(?:=>|[:=])[\\"' ]{0,5}([A-Za-z0-9/+=_-]{80,})"#, &["AWS_SESSION_TOKEN=<b200>"]).reach(2100).entropy(3.5),
    rule("aws_bedrock_key", KEY, &["abskqm"], r"ABSKQmVkcm9ja0FQSUtleS1[A-Za-z0-9+/]{80,}={0,2}", &["AB·SKQmVkcm9ja0FQSUtleS1<b110>"]).reach(300),
    rule("aws_bedrock_short_key", KEY, &["bedrock-api-key-"], r"bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=_-]{20,}", &["bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t<w80>"]).reach(4100),
    rule("aws_mws_key", KEY, &["amzn.mws."], r"amzn\.mws\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["amzn·.mws.<uuid>"]),
    rule("aws_appsync_key", KEY, &["da2-"], r"da2-[a-z0-9]{26}", &["da·2-<l26>"]).entropy(3.2),
    rule("google_api_key", KEY, &["aiza"], r"AIza[A-Za-z0-9_-]{35}", &["AI·za<s35>"]).entropy(3.7).not(&["AI·zaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "AI·za<w20>", "AI·za<w45>"]),
    rule("google_access_token", TOKEN, &["ya29."], r"ya29\.[A-Za-z0-9_-]{20,}", &["ya·29.<s60>"]).reach(1100).entropy(3.5),
    rule("google_refresh_token", TOKEN, &["1//0"], r"1//0[A-Za-z0-9_-]{38,200}", &["1/·/0<s60>"]).entropy(3.8),
    rule("google_client_secret", KEY, &["gocspx-"], r"GOCSPX-[A-Za-z0-9_-]{28}", &["GOC·SPX-<s28>"]),
    rule("google_client_id", KEY, &[".apps.googleusercontent.com"], r"[0-9]{6,21}-[a-z0-9]{32}\.apps\.googleusercontent\.com", &["<d12>-<l32>.apps.googleusercontent.com"]).before(56).reach(0),
    rule("google_hmac_key", KEY, &["goog1"], r"GOOG1[A-Z0-9]{19,60}", &["GO·OG1E<U55>"]).entropy(3.2),
    rule("firebase_messaging_key", KEY, &[":apa91b"], r"AAAA[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{134}", &["AA·AA<w7>:APA91b<s134>"]).before(11),
    rule("azure_storage_key", KEY, &["accountkey=", "accountkey\"", "accountkey:"], r#"(?i:AccountKey)["' ]{0,3}[:=]["' ]{0,3}([A-Za-z0-9+/]{60,100}={0,2})"#, &["AccountName=a;AccountKey=<b86>==;"]),
    rule("azure_shared_access_key", KEY, &["sharedaccesskey=", "sharedsecretvalue="], r"(?i:SharedAccessKey|SharedSecretValue)=([A-Za-z0-9+/]{43}=)", &["SharedAccessKeyName=x;SharedAccessKey=<b43>="]),
    rule("azure_app_config", KEY, &[".azconfig.io;id="], r"(?i:\.azconfig\.io;id=)[^;\s]{1,80};(?i:secret)=([A-Za-z0-9+/]{36,100}={0,2})", &["Endpoint=https://a.azconfig.io;Id=ab-l9-s0:x;Secret=<b43>="]),
    rule("azure_sas", TOKEN, &["sig="], r"sig=([A-Za-z0-9%+/]{40,100}={0,2})", &["https://a.blob.core.windows.net/c?sv=2023-01-03&st=x&se=y&sig=<b43>%3D"]).check(checks::sas).entropy(3.5).not(&["?sig=<w43>"]),
    rule("azure_client_secret", KEY, &["7q~", "8q~", "9q~"], r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}[789]Q~[A-Za-z0-9_~.-]{31,34})(?:$|[^A-Za-z0-9_~.-])", &["client_secret=<w3>8Q~<s34>", "<w3>7Q~<s31>"]).before(4).entropy(3.3).not(&["abc8Q~xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]),
    rule("azure_devops_token", TOKEN, &["azdo"], r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}", &["<w76>AZDO<w4>"]).before(76).reach(4),
    rule("azure_keyed", KEY, &["azfu", "azse", "azca", "+acr", "+asb", "+aeh", "+amc", "+ast", "acdb", "jqqj99"], r"[A-Za-z0-9+/_-]{33,80}(?:AzFu|AzSe|AzCa|\+ACR|\+ASb|\+AEh|\+AMC|\+ASt|ACDb|JQQJ99)[A-Za-z0-9+/_-]{5,36}={0,2}", &["<w44>AzFu<w4>Aw", "<w42>AzSe<w6>", "<w52>JQQJ99<w26>"]).before(80).reach(40).entropy(4.0),
    rule("alibaba_access_key", KEY, &["ltai"], r"LTAI[A-Za-z0-9]{12,20}", &["LT·AI<w20>"]).entropy(3.2),
    rule("tencent_secret_id", KEY, &["akid"], r"AKID[A-Za-z0-9]{32}", &["AK·ID<w32>"]),
    rule("yandex_key", KEY, &["aqvn", "ycaj"], r"(?:AQVN[A-Za-z0-9_-]{35,38}|YCAJE[A-Za-z0-9_-]{20})", &["AQ·VN<s36>"]).entropy(3.2),
    rule("ibm_cloud_key", KEY, &["ibm"], r#"(?i:ibm)[A-Za-z_ .-]{0,24}["' ]{0,3}[:= ]{1,3}["' ]{0,2}([A-Za-z0-9_-]{44})"#, &["ibmcloud_apikey = <s44>"]).entropy(3.2),
    rule("digitalocean_token", TOKEN, &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[0-9a-f]{64}", &["do·p_v1_<h64>"]),
    rule("digitalocean_spaces_key", KEY, &["do00", "do80"], r"DO(?:00|80)[A-Z0-9]{16}", &["DO·00<U16>"]).entropy(2.8),
    rule("heroku_key", KEY, &["hrku-"], r"HRKU-AA[A-Za-z0-9_-]{58}", &["HR·KU-AA<s58>"]),
    rule("flyio_token", TOKEN, &["fo1_", "fm1a_", "fm1r_", "fm2_"], r"(?:fo1_[A-Za-z0-9_-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/]{80,}={0,3})", &["fo·1_<s43>", "FlyV1 fm·2_<b120>"]).reach(2100).not(&["fo·1_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]),
    rule("scalingo_token", TOKEN, &["tk-us-"], r"tk-us-[A-Za-z0-9_-]{48}", &["tk·-us-<s48>"]),
    rule("netlify_token", TOKEN, &["nfp_", "nfo_", "nfc_", "nfu_"], r"nf[pocu]_[A-Za-z0-9_]{36}", &["nf·p_<w36>"]),
    rule("vercel_token", TOKEN, &["vcp_", "vca_", "vck_", "vercel_blob_rw_"], r"(?:vc[pak]_[A-Za-z0-9]{24,60}|vercel_blob_rw_[A-Za-z0-9_]{30,60})", &["vc·p_<w56>"]),
    rule("render_key", KEY, &["rnd_"], r"rnd_[A-Za-z0-9]{28,40}", &["rn·d_<w32>"]),
    rule("railway_token", TOKEN, &["railway_token", "railway_api_token"], r#"(?i:railway_(?:api_)?token)["' ]{0,3}[:=]["' ]{0,3}([0-9a-f-]{36})"#, &["RAILWAY_TOKEN=<uuid>"]),
    rule("cloudflare_origin_key", KEY, &["v1.0-"], r"v1\.0-[0-9a-f]{24,64}-[0-9a-f]{140,}", &["v1.·0-<h24>-<h146>"]),
    rule("cloudflare_token", TOKEN, &["cfut_", "cfat_", "cfk_"], r"cf(?:ut|at|k)_[A-Za-z0-9]{40,48}", &["cf·ut_<w48>"]),
    rule("tailscale_key", KEY, &["tskey-"], r"tskey-[a-z]{3,12}-[A-Za-z0-9]{7,24}(?:-[A-Za-z0-9]{4,48})?", &["tsk·ey-auth-<w12>-<w32>"]).entropy(3.0),
    rule("ngrok_token", TOKEN, &["ngrok"], r#"(?i:ngrok)[A-Za-z_ .-]{0,24}["' ]{0,3}[:= ]{1,3}["' ]{0,2}(\d?[A-Za-z0-9]{20,30}_[A-Za-z0-9]{15,24})"#, &["ngrok authtoken 2<w26>_<w20>"]),
    rule("oci_key", KEY, &["ocid1."], r"ocid1\.credential\.oc1\.[a-z0-9-]{0,20}\.[a-z0-9]{40,80}", &["ocid1.credential.oc1..<l60>"]),
    rule("linode_token", TOKEN, &["linode"], r#"(?i:linode)[A-Za-z_ .-]{0,24}["' ]{0,3}[:= ]{1,3}["' ]{0,2}([0-9a-f]{64})"#, &["LINODE_TOKEN=<h64>"]),
    rule("hetzner_token", TOKEN, &["hcloud", "hetzner"], r#"(?i:hcloud|hetzner)[A-Za-z_ .-]{0,24}["' ]{0,3}[:= ]{1,3}["' ]{0,2}([A-Za-z0-9]{64})"#, &["HCLOUD_TOKEN=<w64>"]),

    // Models and what is built around them.
    rule("openai_key", KEY, &["sk-"], r"sk-(?:[A-Za-z0-9]{20}T[34]BlbkFJ[A-Za-z0-9]{20}|(?:proj|svcacct|admin|None|user|service)-[A-Za-z0-9_-]{20,200}|[A-Za-z0-9]{48})", &["s·k-<w20>T3BlbkFJ<w20>", "s·k-proj-<s74>", "s·k-<w48>"]).entropy(3.3).not(&["s·k-project-management-software-for-teams", "ri·sk-<w48>"]),
    rule("anthropic_key", KEY, &["sk-ant-"], r"sk-ant-[a-z]{2,8}\d{1,4}-[A-Za-z0-9_-]{86,110}AA", &["s·k-ant-api03-<s93>AA", "s·k-ant-admin01-<s93>AA"]).entropy(3.3).not(&["s·k-ant-api03-<w20>"]),
    rule("deepseek_key", KEY, &["sk-"], r"sk-[0-9a-f]{32}", &["s·k-<h32>"]).entropy(3.0),
    rule("openrouter_key", KEY, &["sk-or-"], r"sk-or-v1-[0-9a-f]{64}", &["s·k-or-v1-<h64>"]),
    rule("langfuse_key", KEY, &["sk-lf-"], r"sk-lf-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["s·k-lf-<uuid>"]),
    rule("huggingface_token", TOKEN, &["hf_", "api_org_"], r"(?:hf|api_org)_[A-Za-z0-9]{30,40}", &["h·f_<A34>", "ap·i_org_<A34>"]).entropy(3.3).check(checks::no_words).not(&["h·f_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "h·f_servingcellpriorityparametersdesc"]),
    rule("groq_key", KEY, &["gsk_"], r"gsk_[A-Za-z0-9]{50,54}", &["gs·k_<w52>"]).entropy(3.3),
    rule("xai_key", KEY, &["xai-"], r"xai-[A-Za-z0-9_]{70,85}", &["xa·i-<w80>"]).entropy(3.3),
    rule("perplexity_key", KEY, &["pplx-"], r"pplx-[A-Za-z0-9]{40,60}", &["pp·lx-<w48>"]).entropy(3.3).not(&["pp·lx-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]),
    rule("replicate_token", TOKEN, &["r8_"], r"r8_[A-Za-z0-9_-]{37,46}", &["r·8_<w37>"]).entropy(3.3),
    rule("fireworks_key", KEY, &["fw_"], r"fw_[A-Za-z0-9]{22,24}", &["f·w_<w24>"]).entropy(3.4),
    rule("nvidia_key", KEY, &["nvapi-"], r"nvapi-[A-Za-z0-9_-]{60,70}", &["nv·api-<s64>"]).entropy(3.3),
    rule("elevenlabs_key", KEY, &["sk_"], r"sk_[0-9a-f]{48}", &["s·k_<h48>"]).entropy(3.0),
    rule("langsmith_key", KEY, &["lsv2_"], r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}", &["ls·v2_pt_<h32>_<h10>"]),
    rule("pinecone_key", KEY, &["pcsk_"], r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,70}", &["pc·sk_<w5>_<w63>"]),
    rule("cerebras_key", KEY, &["csk-"], r"csk-[a-z0-9]{48}", &["cs·k-<l48>"]).entropy(3.3),
    rule("tavily_key", KEY, &["tvly-"], r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{32}", &["tv·ly-<w32>"]).entropy(3.3),
    rule("jina_key", KEY, &["jina_"], r"jina_[0-9a-f]{32}[A-Za-z0-9_-]{28}", &["ji·na_<h32><w28>"]),
    rule("e2b_key", KEY, &["e2b_"], r"e2b_[0-9a-f]{40}", &["e2·b_<h40>"]),
    rule("firecrawl_key", KEY, &["fc-"], r"fc-[0-9a-f]{32}", &["f·c-<h32>"]).entropy(3.0),
    rule("voyage_key", KEY, &["pa-"], r"pa-[A-Za-z0-9_-]{43}", &["p·a-<w43>"]).entropy(4.2),
    rule("together_key", KEY, &["tgp_v1_"], r"tgp_v1_[A-Za-z0-9_-]{43}", &["tg·p_v1_<s43>"]),
    rule("cursor_key", KEY, &["key_"], r"key_[0-9a-f]{64}", &["ke·y_<h64>"]).entropy(3.2),
    rule("wandb_key", KEY, &["wandb_v1_"], r"wandb_v1_[A-Za-z0-9_]{60,90}", &["wan·db_v1_<w77>"]),
    rule("modal_token", TOKEN, &["ak-", "as-"], r"a[ks]-[A-Za-z0-9]{22}", &["a·k-<w22>"]).entropy(3.9),
    rule("comet_key", KEY, &["comet_api_key", "opik_api_key"], r#"(?i:(?:comet|opik)_api_key)["' ]{0,3}[:=]["' ]{0,3}([A-Za-z0-9]{25,40})"#, &["COMET_API_KEY=<w25>"]),
    rule("smithery_composio_key", KEY, &["composio", "smithery"], r#"(?i:composio|smithery)[A-Za-z_ ]{0,16}["' ]{0,3}[:=]["' ]{0,3}([A-Za-z0-9_-]{20,40})"#, &["COMPOSIO_API_KEY=ak_<w22>"]).entropy(3.3),

    // Messages.
    rule("slack_token", TOKEN, &["xoxb-", "xoxp-", "xoxa-", "xoxs-", "xoxr-", "xoxo-", "xoxc-", "xoxd-"], r"xox[abporsc]-(?:\d-)?(?:[0-9A-F]{5,14}-){1,3}[A-Za-z0-9]{8,64}|xoxd-[A-Za-z0-9%/+=_-]{60,}", &["xo·xb-<d12>-<d13>-<w24>", "xo·xp-<d11>-<d11>-<d11>-<h32>", "xo·xa-2-<d11>-<d11>-<h20>"]).reach(420).check(checks::slack).not(&["xo·xb-xxxxxxxxx-xxxxxxxxxx-xxxxxxxxxxxx", "xo·xb-12345-abcd234", "xo·xp-1234567890"]),
    rule("slack_rotating_token", TOKEN, &["xoxe.xox", "xoxe-"], r"xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{140,200}|xoxe-(?:\d{5,14}-){3}[0-9a-f]{32}", &["xo·xe-1-<w146>", "xo·xe.xoxp-1-<w166>"]).not(&["xo·xe.xoxp-1-RANDOMSTRINGHERE"]),
    rule("slack_app_token", TOKEN, &["xapp-"], r"xapp-\d-[A-Z0-9]{8,14}-\d{8,16}-[0-9a-z]{32,64}", &["xa·pp-1-<U11>-<d13>-<h64>"]),
    rule("slack_webhook", HOOK, &["hooks.slack.com/"], r"hooks\.slack\.com/(?:services/(?:T[A-Za-z0-9]{6,12}/B[A-Za-z0-9]{6,12}/[A-Za-z0-9]{20,26})|(?:workflows|triggers)/[A-Z0-9]{8,12}/[A-Za-z0-9/]{30,80})", &["https://hooks.sl·ack.com/services/T<U8>/B<U8>/<w24>"]).not(&["https://hooks.sl·ack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"]),
    rule("discord_bot_token", TOKEN, &["discord", "bot_token", "bot token", "client.login", "client.run", "bot.run"], r#"(?i:discord|bot|client)[^\n]{0,60}?([A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38})"#, &["DISCORD_TOKEN=M<w23>.<w6>.<s27>", "client.login('M<w25>.<w6>.<s38>')"]).entropy(3.8),
    rule("discord_webhook", HOOK, &["/api/webhooks/"], r"/api/webhooks/\d{16,20}/[A-Za-z0-9_-]{58,72}", &["https://discord.com/api/webhooks/<d18>/<s68>"]),
    rule("telegram_bot_token", TOKEN, &[":aa"], r"(?:^|[^0-9A-Za-z]|bot)(\d{8,10}:AA[A-Za-z0-9_-]{33})", &["https://api.telegram.org/bot<d10>:AA<s33>/getMe", "token: <d10>:AA<s33>"]).before(14).reach(33).entropy(3.5),
    rule("telegram_named_token", TOKEN, &["telegram", "tgram"], r#"(?i:telegram|tgram)[A-Za-z_ .-]{0,24}["' ]{0,3}[:=/ ]{1,3}["' ]{0,2}(\d{8,10}:[A-Za-z0-9_-]{35})"#, &["telegram: <d10>:<s35>"]),
    rule("twilio_key", KEY, &["sk0", "sk1", "sk2", "sk3", "sk4", "sk5", "sk6", "sk7", "sk8", "sk9", "ska", "skb", "skc", "skd", "ske", "skf"], r"SK[0-9a-f]{32}", &["S·K<h32>"]).entropy(3.0),
    rule("sendgrid_key", KEY, &["sg."], r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}", &["S·G.<s22>.<s43>"]),
    rule("mailgun_key", KEY, &["key-"], r"key-[0-9a-f]{32}", &["ke·y-<h32>"]).entropy(3.0).check(checks::mailgun),
    rule("mailchimp_key", KEY, &["-us"], r"(?:^|[^0-9a-f])([0-9a-f]{32}-us\d{1,2})", &["mailchimp: <h32>-us18"]).before(33).reach(2).entropy(3.0).not(&["<h31>-us18"]),
    rule("brevo_key", KEY, &["xkeysib-", "xsmtpsib-"], r"x(?:keys|smtps)ib-[0-9a-f]{64}-[A-Za-z0-9]{16}", &["xke·ysib-<h64>-<w16>"]),
    rule("teams_webhook", HOOK, &[".webhook.office.com/"], r"\.webhook\.office\.com/webhookb2/[0-9a-z-]{36}@[0-9a-z-]{36}/IncomingWebhook/[A-Za-z0-9]{20,40}/[0-9a-z-]{36}[A-Za-z0-9/_-]{0,60}", &["https://a.webhook.office.com/webhookb2/<uuid>@<uuid>/IncomingWebhook/<h32>/<uuid>"]),
    rule("google_chat_webhook", HOOK, &["chat.googleapis.com/v1/spaces/"], r"chat\.googleapis\.com/v1/spaces/[A-Za-z0-9_-]{6,20}/messages\?key=[A-Za-z0-9_%-]{20,60}&token=[A-Za-z0-9_%-]{20,80}", &["https://chat.googleapis.com/v1/spaces/<w11>/messages?key=<w39>&token=<w43>"]),
    rule("zapier_webhook", HOOK, &["hooks.zapier.com/hooks/catch/"], r"hooks\.zapier\.com/hooks/catch/[A-Za-z0-9]{5,20}(?:/[A-Za-z0-9]{5,20})?", &["https://hooks.zapier.com/hooks/catch/<d8>/<l7>"]),
    rule("ifttt_webhook", HOOK, &["maker.ifttt.com/trigger/"], r"maker\.ifttt\.com/trigger/[^/\s]{1,64}/(?:json/)?with/key/([A-Za-z0-9_-]{20,60})", &["https://maker.ifttt.com/trigger/x/with/key/<s43>"]),
    rule("lark_webhook", HOOK, &["/open-apis/bot/v2/hook/"], r"/open-apis/bot/v2/hook/[0-9a-f-]{36}", &["https://open.feishu.cn/open-apis/bot/v2/hook/<uuid>"]),
    rule("dingtalk_webhook", HOOK, &["oapi.dingtalk.com/robot/send"], r"oapi\.dingtalk\.com/robot/send\?access_token=([0-9a-f]{64})", &["https://oapi.dingtalk.com/robot/send?access_token=<h64>"]),
    rule("wecom_webhook", HOOK, &["qyapi.weixin.qq.com/cgi-bin/webhook/"], r"qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=([0-9a-f-]{36})", &["https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=<uuid>"]),
    rule("tines_webhook", HOOK, &[".tines.com/webhook/"], r"\.tines\.com/webhook/[0-9a-f]{32}/[0-9a-f]{32}", &["https://a.tines.com/webhook/<h32>/<h32>"]),
    rule("logic_app_hook", HOOK, &[".logic.azure.com"], r"\.logic\.azure\.com(?::443)?/[^\s\x22']{20,}[?&]sig=([A-Za-z0-9_%-]{40,60})", &["https://p.westus.logic.azure.com:443/workflows/<h32>/triggers/manual/paths/invoke?api-version=2016&sig=<s43>"]).reach(420),

    // Money.
    rule("stripe_key", KEY, &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"], r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,200}", &["s·k_live_<w24>", "r·k_test_<w99>"]).entropy(3.2).not(&["s·k_test_xxxxxxxxxxxxxxxxxxxxxxxx", "task_test_1234567890"]),
    rule("stripe_webhook_secret", KEY, &["whsec_"], r"whsec_[A-Za-z0-9+/=]{24,80}", &["wh·sec_<w32>"]).entropy(3.2),
    rule("square_token", TOKEN, &["sq0"], r"sq0[a-z]{3}-[A-Za-z0-9_-]{22,50}", &["sq·0atp-<s22>", "sq·0csp-<s43>"]),
    rule("square_access_token", TOKEN, &["eaaa"], r"EAAA[A-Za-z0-9_-]{60}", &["EA·AA<s60>"]).entropy(4.0),
    rule("shopify_token", TOKEN, &["shpat_", "shpca_", "shppa_", "shpss_", "shptka_", "shpua_"], r"shp(?:at|ca|pa|ss|tka|ua)_[0-9a-fA-F]{32}", &["sh·pat_<h32>"]).entropy(3.0),
    rule("paypal_token", TOKEN, &["access_token$"], r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}", &["access_token$production$<l16>$<h32>"]),
    rule("plaid_token", TOKEN, &["access-sandbox-", "access-production-", "access-development-"], r"access-(?:sandbox|development|production)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["access-production-<uuid>"]),
    rule("razorpay_key", KEY, &["rzp_live_", "rzp_test_"], r"rzp_(?:live|test)_[A-Za-z0-9]{14,24}", &["rz·p_live_<w14>"]),
    rule("flutterwave_key", KEY, &["flwseck", "flwpubk"], r"FLW(?:SECK|PUBK)(?:_TEST)?-[0-9a-zA-Z]{32}-X", &["FLW·SECK-<h32>-X"]),
    rule("adyen_key", KEY, &["aqe"], r"AQE[a-z][A-Za-z0-9+/]{60,160}={0,2}-[A-Za-z0-9+/=]{20,60}-[A-Za-z0-9!-~]{10,20}", &["AQ·Ey<b80>-<b43>=-<w16>"]),
    rule("lob_key", KEY, &["live_", "test_"], r"(?:live|test)_(?:pub_)?[0-9a-f]{31,35}", &["li·ve_<h35>"]).entropy(3.0),
    rule("easypost_key", KEY, &["ezak", "eztk"], r"EZ[AT]K[A-Za-z0-9]{54}", &["EZ·AK<w54>"]).entropy(3.5),
    rule("shippo_token", TOKEN, &["shippo_live_", "shippo_test_"], r"shippo_(?:live|test)_[0-9a-fA-F]{40}", &["ship·po_live_<h40>"]),
    rule("duffel_token", TOKEN, &["duffel_test_", "duffel_live_"], r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}", &["duf·fel_live_<s43>"]),
    rule("pagarme_key", KEY, &["ak_live_", "ak_test_"], r"ak_(?:live|test)_[A-Za-z0-9]{24,36}", &["a·k_live_<w30>"]),
    rule("mollie_key", KEY, &["live_", "test_"], r"(?:live|test)_[A-Za-z0-9]{30}", &["te·st_<w30>"]).entropy(4.0),
    rule("gocardless_token", TOKEN, &["live_"], r"live_[A-Za-z0-9_-]{40}", &["li·ve_<w40>"]).entropy(4.2),
    rule("paddle_key", KEY, &["pdl_"], r"pdl_(?:live|sdbx)_apikey_[0-9a-z]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}", &["pd·l_live_apikey_<l26>_<w22>_<w3>"]),
    rule("coinbase_key", KEY, &["organizations/"], r"organizations/[0-9a-f-]{36}/apiKeys/[0-9a-f-]{36}", &["organizations/<uuid>/apiKeys/<uuid>"]),
    rule("ethereum_key", KEY, &["private"], r#"(?i:private)[_ -]?(?i:key)["' ]{0,3}[:=]["' ]{0,3}((?:0x)?[0-9a-fA-F]{64})"#, &["PRIVATE_KEY=0x<h64>"]).entropy(3.0),
    rule("bip32_key", KEY, &["xprv"], r"xprv[1-9A-HJ-NP-Za-km-z]{107}", &["xp·rv<Z107>"]),

    // Packages and builds.
    rule("npm_token", TOKEN, &["npm_"], r"npm_[A-Za-z0-9]{36}", &["np·m_<w36>"]).entropy(3.3),
    rule("npmrc_auth", TOKEN, &["_authtoken", "_auth", "_password"], r#"(?:^|[:\s"'])_(?:authToken|auth|password)["' ]{0,3}[:=]["' ]{0,3}([A-Za-z0-9+/=_.-]{16,})"#, &["//registry.npmjs.org/:_authToken=<uuid>", "_auth=<w32>"]).reach(420).before(1).entropy(3.0).not(&["//registry.npmjs.org/:_authToken=${NPM_TOKEN}"]),
    rule("pypi_token", TOKEN, &["pypi-ag"], r"pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{40,}", &["py·pi-AgEIcHlwaS5vcmc<s100>"]).reach(1100),
    rule("crates_token", TOKEN, &["cio"], r"cio[A-Za-z0-9]{32}", &["ci·o<w32>"]).entropy(3.7),
    rule("rubygems_token", TOKEN, &["rubygems_"], r"rubygems_[0-9a-f]{48}", &["ruby·gems_<h48>"]),
    rule("nuget_key", KEY, &["oy2"], r"oy2[a-z0-9]{43}", &["oy·2<l43>"]).entropy(3.3),
    rule("clojars_token", TOKEN, &["clojars_"], r"CLOJARS_[0-9a-z]{60}", &["CLO·JARS_<l60>"]),
    rule("packagist_token", TOKEN, &["packagist_"], r"packagist_(?:[ou][ru]t|uut|ort|ack)_[0-9a-f]{60,72}", &["packa·gist_ort_<h68>"]),
    rule("docker_token", TOKEN, &["dckr_pat_", "dckr_oat_"], r"dckr_[po]at_[A-Za-z0-9_-]{27,36}", &["dc·kr_pat_<s27>"]),
    rule("docker_config_auth", PASSWORD, &["\"auth\""], r#""auth"\s{0,4}:\s{0,4}"([A-Za-z0-9+/]{12,}={0,2})""#, &[r#"{"auths":{"r.example.com":{"auth":"dXNlcjpodW50ZXIyMjIy"}}}"#]).reach(420).check(checks::user_and_password),
    rule("artifactory_token", TOKEN, &["akcp", "cmvmd"], r"(?:AKCp[A-Za-z0-9]{60,72}|cmVmd[A-Za-z0-9]{59})", &["AK·Cp<w69>", "cm·Vmd<w59>"]).entropy(3.5),
    rule("circleci_token", TOKEN, &["ccipat_", "cciprj_"], r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{20,24}_[A-Za-z0-9]{40}", &["CC·IPAT_<w22>_<h40>"]),
    rule("buildkite_token", TOKEN, &["bkua_", "bkct_", "bkaj_"], r"bk(?:ua|ct|aj)_[0-9a-zA-Z]{40}", &["bk·ua_<h40>"]),
    rule("doppler_token", TOKEN, &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}", &["dp·.pt.<w43>", "dp·.st.dev.<w43>"]),
    rule("pulumi_token", TOKEN, &["pul-"], r"pul-[0-9a-f]{40}", &["pu·l-<h40>"]).not(&["vipu·l-<h40>"]),
    rule("prefect_key", KEY, &["pnu_", "pnb_"], r"pn[ub]_[A-Za-z0-9]{36}", &["pn·u_<w36>"]).entropy(3.3).not(&["pn·u_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX"]),
    rule("terraform_token", TOKEN, &[".atlasv1."], r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}", &["<w14>·.atlasv1.<s67>"]).before(14),
    rule("vault_token", TOKEN, &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,}", &["hv·s.<s95>", "hv·b.<s140>"]).entropy(3.3).reach(320),
    rule("vault_old_token", TOKEN, &["vault_token", "vault-token", "vault token", "vault login", "vaulttoken"], r#"(?i:vault[_ -]?(?:token|login))["' ]{0,3}[:= ]["' ]{0,3}(s\.[A-Za-z0-9]{24})"#, &["VAULT_TOKEN=s·.<w24>"]).entropy(3.5).not(&["s·.thisIsALongMethodNameIndeed"]),
    rule("infracost_key", KEY, &["ico-"], r"ico-[A-Za-z0-9]{32}", &["ic·o-<w32>"]).entropy(3.5),
    rule("snyk_token", TOKEN, &["snyk"], r#"(?i:snyk)[A-Za-z_ .-]{0,24}["' ]{0,3}[:=]{1,3}[>"' ]{0,3}([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"#, &["SNYK_TOKEN=<uuid>"]),
    rule("sonar_token", TOKEN, &["sqp_", "squ_", "sqa_"], r"sq[pua]_[0-9a-f]{40}", &["sq·p_<h40>"]),
    rule("sonar_login", TOKEN, &["sonar"], r#"(?i:sonar)[A-Za-z_.]{0,16}(?i:login|token)["' ,]{0,4}[:= ]{0,3}["' ]{0,2}([0-9a-f]{40})"#, &["-Dsonar.login=<h40>", "sonarLogin = \"<h40>\""]).before(1),
    rule("codeclimate_token", TOKEN, &["codeclimate_", "cc_test_reporter_id"], r#"(?i:codeclimate_[a-z_]{3,16}|cc_test_reporter_id)["' ]{0,3}[:=]["' ]{0,3}([0-9a-f]{64})"#, &["CC_TEST_REPORTER_ID: <h64>"]),
    rule("codecov_token", TOKEN, &["codecov"], r#"(?i:codecov)[A-Za-z_ ]{0,12}["' ]{0,3}[:=]["' ]{0,3}([0-9a-f-]{32,36})"#, &["CODECOV_TOKEN: <uuid>"]),
    rule("sourcegraph_token", TOKEN, &["sgp_", "slk_"], r"(?:sgp_(?:(?:[0-9a-fA-F]{16}|local)_){0,2}[0-9a-fA-F]{40}|slk_[0-9a-f]{64})", &["sg·p_<h40>", "sg·p_<h16>_<h40>", "sg·p_local_<h40>", "sl·k_<h64>"]).entropy(3.2).not(&["sg·p_<h20>"]),
    rule("segment_token", TOKEN, &["sgp_"], r"sgp_[A-Za-z0-9]{64}", &["sg·p_<w64>"]).entropy(4.0),
    rule("sidekiq_secret", PASSWORD, &["contribsys__com"], r#"(?i:contribsys__com)["' ]{0,3}[:=]["' ]{0,3}([0-9a-f]{8}:[0-9a-f]{8})"#, &["BUNDLE_GEMS__CONTRIBSYS__COM=<h8>:<h8>"]).entropy(2.0),
    rule("gradle_key", KEY, &["gradle"], r#"(?i:gradle)[A-Za-z_.]{0,24}(?i:key)["' ]{0,3}[:=]["' ]{0,3}([A-Za-z0-9]{52})"#, &["GRADLE_ENTERPRISE_ACCESS_KEY=<w52>"]),
    rule("octopus_key", KEY, &["api-"], r"API-[A-Z0-9]{25,27}", &["AP·I-<U26>"]).entropy(3.2).not(&["GSSAP·I-VIRHEKAPSELOINTIMERKKIJONO."]),
    rule("harness_token", TOKEN, &["pat.", "sat."], r"[ps]at\.[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}", &["pa·t.<s22>.<h24>.<w20>"]),
    rule("openshift_token", TOKEN, &["sha256~"], r"sha256~[A-Za-z0-9_-]{43}", &["sha·256~<s43>"]).entropy(3.5).not(&["sha·256~XXXXXXXXXX_PUT_YOUR_TOKEN_HERE_XXXXXXXXXXXX"]),
    rule("supabase_token", TOKEN, &["sbp_", "sb_secret_"], r"(?:sbp_[0-9a-z]{40}|sb_secret_[A-Za-z0-9_-]{22,40})", &["sb·p_<h40>", "sb·_secret_<s31>"]),
    rule("planetscale_token", TOKEN, &["pscale_"], r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}", &["psc·ale_tkn_<s43>"]),
    rule("neon_key", KEY, &["napi_", "npg_"], r"(?:napi_[a-z0-9]{64}|npg_[A-Za-z0-9]{12,24})", &["na·pi_<l64>"]),
    rule("mongodb_service_key", KEY, &["mdb_sa_sk_"], r"mdb_sa_sk_[A-Za-z0-9_-]{40}", &["md·b_sa_sk_<s40>"]),
    rule("databricks_token", TOKEN, &["dapi"], r"dapi[0-9a-f]{32}(?:-\d)?", &["da·pi<h32>", "da·pi<h32>-3"]).entropy(3.0).not(&["da·pi123456789012345678a9bc01234defg5"]),
    rule("clickhouse_key", KEY, &["4b1d"], r"4b1d[A-Za-z0-9]{38}", &["4b·1d<w38>"]).entropy(4.0),
    rule("confluent_key", KEY, &["cflt"], r"cflt[A-Za-z0-9+/]{60}", &["cf·lt<b60>"]),
    rule("aiven_token", TOKEN, &["avns_", "aivenv1"], r"(?:AVNS_[A-Za-z0-9_-]{19}|aivenv1[A-Za-z0-9+/=]{40,})", &["AV·NS_<s19>"]).reach(440),

    // Watching.
    rule("newrelic_key", KEY, &["nrak-", "nrii-", "nrjs-", "nrra-", "nriq-"], r"(?:NRAK-[A-Z0-9]{27}|NRI[IQ]-[A-Za-z0-9_-]{32}|NRJS-[0-9a-f]{19}|NRRA-[0-9a-f]{42})", &["NR·AK-<U27>", "NR·JS-<h19>"]),
    rule("newrelic_license", KEY, &["nral"], r"[0-9a-f]{36}NRAL", &["<h36>NR·AL"]).before(36),
    rule("sentry_token", TOKEN, &["sntrys_", "sntryu_"], r"(?:sntryu_[0-9a-f]{64}|sntrys_eyJ[A-Za-z0-9+/=_-]{60,})", &["snt·ryu_<h64>", "snt·rys_eyJ<b100>"]).reach(540),
    rule("sentry_dsn", KEY, &[".sentry.io/"], r"https://([0-9a-f]{32}(?::[0-9a-f]{32})?)@[a-z0-9.]{1,40}\.sentry\.io/\d{1,20}", &["https://<h32>@o12345.ingest.sentry.io/4505"]).before(130),
    rule("grafana_cloud_token", TOKEN, &["glc_"], r"glc_[A-Za-z0-9+/]{32,}={0,3}", &["gl·c_<b80>"]).reach(420).entropy(3.2),
    rule("grafana_service_token", TOKEN, &["glsa_"], r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}", &["gl·sa_<w32>_<h8>"]).entropy(3.2),
    rule("grafana_key", KEY, &["eyjrijoi"], r"eyJrIjoi[A-Za-z0-9]{60,}={0,3}", &["ey·JrIjoi<w80>"]).reach(420).entropy(3.2),
    rule("dynatrace_token", TOKEN, &["dt0"], r"dt0[a-z]\d{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}", &["dt·0c01.<U24>.<U64>"]),
    rule("honeycomb_key", KEY, &["hcaik_", "hcbik_", "hcxik_"], r"hc[a-z]ik_[0-9a-z]{26}[0-9a-zA-Z]{32}", &["hca·ik_<l26><w32>"]),
    rule("posthog_key", KEY, &["phx_", "phc_", "phs_"], r"ph[xcs]_[A-Za-z0-9_]{40,50}", &["ph·x_<w43>"]),
    rule("launchdarkly_key", KEY, &["api-", "sdk-"], r"(?:api|sdk)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", &["sd·k-<uuid>"]),
    rule("mezmo_axiom_key", KEY, &["xaat-", "xapt-"], r"xa[ap]t-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["xa·at-<uuid>"]),
    rule("pagerduty_key", KEY, &["pagerduty", "pager_duty", "pd_"], r#"(?i:pagerduty|pager_duty|pd)_?[A-Za-z_ -]{0,24}["' ]{0,3}[:=][>"' ]{0,3}(u\+[A-Za-z0-9_+-]{18}|[A-Za-z0-9_-]{20}|[0-9a-f]{32})"#, &["PAGERDUTY_TOKEN=u+<w18>"]).entropy(3.2),
    rule("statsig_key", KEY, &["secret-"], r"secret-[A-Za-z0-9]{43,48}", &["secret·-<w43>"]).entropy(4.0),
    rule("sumologic_id", KEY, &["sumologic", "sumo_"], r#"(?i:sumologic|sumo_)[A-Za-z_ .-]{0,24}["' ]{0,3}(?:=>|:=|[:=])["' ]{0,3}(su[A-Za-z0-9]{12}|[A-Za-z0-9]{64})"#, &["sumologic_accessId = su<w12>", "SUMOLOGIC_ACCESSKEY=<w64>"]).entropy(3.0).not(&["sumOfExposures = <w64>"]),

    // Work.
    rule("atlassian_token", TOKEN, &["atatt3", "atctt3", "atstt3", "atatt"], r"AT[ACS]TT3?[A-Za-z0-9_=-]{100,}", &["AT·ATT3<s180>"]).reach(320),
    rule("linear_key", KEY, &["lin_api_", "lin_oauth_"], r"lin_(?:api_[A-Za-z0-9]{40}|oauth_[0-9a-f]{64})", &["li·n_api_<w40>"]),
    rule("notion_token", TOKEN, &["ntn_"], r"ntn_\d{11}[A-Za-z0-9]{32,36}", &["nt·n_<d11><w35>"]).entropy(3.5).not(&["nt·n_12345678901abc"]),
    rule("notion_old_token", TOKEN, &["secret_"], r"secret_[A-Za-z0-9]{43}", &["secr·et_<w43>"]).entropy(4.0),
    rule("airtable_token", TOKEN, &["airtable"], r"(?i:airtable)[^\n]{0,60}?(pat[A-Za-z0-9]{14}\.[0-9a-f]{64})", &["AIRTABLE_PAT=pa·t<w14>.<h64>"]),
    rule("figma_token", TOKEN, &["figd_", "figo_", "figu_"], r"fig[dou]r?_[A-Za-z0-9_-]{38,48}", &["fi·gd_<s40>"]),
    rule("figma_header", TOKEN, &["x-figma-token"], r"(?i:x-figma-token): ?([0-9a-z-]{20,60})", &["X-Figma-Token: 1394-<uuid>"]),
    rule("asana_token", TOKEN, &["asana"], r#"(?i:asana)[A-Za-z_ .-]{0,24}["' ]{0,3}[:=]["' ]{0,3}([0-2]/(?:\d{6,20}(?:/\d{6,20})?:)?[0-9a-f]{32})"#, &["asana_pat = 1/<d16>:<h32>"]),
    rule("hubspot_token", TOKEN, &["pat-na", "pat-eu"], r"pat-(?:na|eu)\d-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["pa·t-na1-<uuid>"]),
    rule("typeform_token", TOKEN, &["tfp_"], r"tfp_[A-Za-z0-9_.=-]{40,60}", &["tf·p_<s59>"]),
    rule("readme_key", KEY, &["rdme_"], r"rdme_[a-z0-9]{68,72}", &["rd·me_<l70>"]).entropy(3.2).not(&["rd·me_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]),
    rule("postman_key", KEY, &["pmak-"], r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", &["PM·AK-<h24>-<h34>"]),
    rule("contentful_token", TOKEN, &["cfpat-"], r"CFPAT-[A-Za-z0-9_-]{43,64}", &["CF·PAT-<s43>"]),
    rule("dropbox_token", TOKEN, &["sl."], r"sl\.(?:u\.)?[A-Za-z0-9_-]{130,}", &["sl·.<s140>"]).reach(1600).entropy(4.0),
    rule("frameio_token", TOKEN, &["fio-u-"], r"fio-u-[A-Za-z0-9_=-]{60,70}", &["fi·o-u-<s64>"]),
    rule("clickup_token", TOKEN, &["pk_"], r"pk_\d{6,12}_[A-Z0-9]{32}", &["p·k_<d8>_<U32>"]),
    rule("teamwork_token", TOKEN, &["tkn.v1_"], r"tkn\.v1_[A-Za-z0-9_=-]{60,90}", &["tk·n.v1_<s80>"]),
    rule("intercom_token", TOKEN, &["dg9ro"], r"dG9rO[A-Za-z0-9+/]{50,60}={0,2}", &["dG·9rO<b55>="]),
    rule("mapbox_token", TOKEN, &["sk.eyj", "tk.eyj", "pk.eyj"], r"[stp]k\.eyJ[A-Za-z0-9_-]{40,160}\.[A-Za-z0-9_-]{20,24}", &["s·k.eyJ<s70>.<s22>"]),
    rule("adafruit_key", KEY, &["aio_"], r"aio_[A-Za-z0-9]{28}", &["ai·o_<w28>"]),
    rule("adobe_secret", KEY, &["p8e-", "p8-"], r"p8e?-[A-Za-z0-9_-]{32}", &["p8·e-<l32>"]).entropy(3.0),
    rule("onepassword_service_token", TOKEN, &["ops_eyj"], r"ops_eyJ[A-Za-z0-9+/_-]{200,}={0,3}", &["op·s_eyJ<b300>"]).reach(4100).entropy(4.0).not(&["op·s_eyJzaWduSW5B..."]),
    rule("onepassword_secret_key", KEY, &["a3-"], r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}", &["A·3-<U6>-<U11>-<U5>-<U5>-<U5>", "A·3-<U6>-<U6>-<U5>-<U5>-<U5>-<U5>"]).entropy(3.5).not(&["A·3-XXXXXX-XXXXXXXXXXX-XXXXX-XXXXX-XXXXX"]),
    rule("bitwarden_token", TOKEN, &["bws_access_token", "bws "], r"(?i:bws)[^\n]{0,40}?(0\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.[A-Za-z0-9]{30}:[A-Za-z0-9+/]{22}==)", &["BWS_ACCESS_TOKEN=0·.<uuid>.<w30>:<b22>=="]),
    rule("okta_token", TOKEN, &["okta", "ssws"], r#"(?:(?i:okta)[A-Za-z_ .-]{0,24}["' ]{0,3}[:=]["' ]{0,3}|SSWS )(00[A-Za-z0-9_-]{39,42})"#, &["okta_api_token=00<s40>", "Authorization: SSWS 00<s40>"]).not(&["oktaKey = 00000000000000000000000000000000000TUVWXYZ"]),
    rule("intra42_secret", KEY, &["s-s4t2"], r"s-s4t2(?:ud|af)-[0-9a-f]{64}", &["s-s4·t2ud-<h64>"]),
    rule("maxmind_key", KEY, &["_mmk"], r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", &["<w6>_<w29>_mmk"]).before(36).reach(0),
    rule("nightfall_key", KEY, &["nf-"], r"NF-[A-Za-z0-9]{32}", &["N·F-<w32>"]).entropy(2.9),
    rule("pubnub_key", KEY, &["pub-c-", "sub-c-", "sec-c-"], r"(?:pub|sub|sec)-c-(?:[0-9a-z]{8}-[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{12}|[A-Za-z0-9]{40,60})", &["pu·b-c-<uuid>"]),
    rule("fullstory_key", KEY, &["na1."], r"na1\.[A-Za-z0-9+/]{90,110}={0,2}", &["na·1.<b100>"]),
    rule("stackhawk_key", KEY, &["hawk."], r"hawk\.[A-Za-z0-9_-]{20}\.[A-Za-z0-9_-]{20}", &["haw·k.<s20>.<s20>"]),
    rule("settlemint_token", TOKEN, &["sm_aat_", "sm_pat_", "sm_sat_"], r"sm_[aps]at_[A-Za-z0-9]{16}", &["sm·_pat_<w16>"]),
    rule("authress_key", KEY, &["sc_", "scauth_", "authress_"], r"(?:sc|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.(?:acc[_-][a-z0-9-]{10,32})\.[A-Za-z0-9+/_=-]{30,120}", &["sc·_<l20>.<l4>.acc-<l12>.<b43>="]),
    rule("thingsboard_token", TOKEN, &["thingsboard.cloud/api/v1/"], r"(?i:thingsboard\.cloud/api/v1/)([a-z0-9]{20})", &["https://thingsboard.cloud/api/v1/<l20>/telemetry"]),
    rule("truenas_key", KEY, &["login_with_api_key"], r#"login_with_api_key"[\s,]{0,10}"params"\s{0,4}:\s{0,4}\[\s{0,20}"(\d{1,5}-[A-Za-z0-9]{64})""#, &[r#""method":"auth.login_with_api_key", "params":["8-<w64>"]"#]),
    rule("samsara_token", TOKEN, &["samsara_api_"], r"samsara_api_[A-Za-z0-9]{30}", &["sam·sara_api_<w30>"]),
    rule("dependency_track_key", KEY, &["odt_"], r"odt_[A-Za-z0-9]{32,40}", &["od·t_<w32>"]).entropy(3.3),
    rule("fleetbase_key", KEY, &["flb_live_", "flb_test_"], r"flb_(?:live|test)_[A-Za-z0-9]{20}", &["fl·b_live_<w20>"]),
    rule("flexport_token", TOKEN, &["shltm_"], r"shltm_[A-Za-z0-9_-]{40}", &["shl·tm_<w40>"]),
    rule("ionic_token", TOKEN, &["ion_"], r"ion_[A-Za-z0-9]{42}", &["io·n_<w42>"]).entropy(3.8),
    rule("ubidots_token", TOKEN, &["bbff-"], r"BBFF-[A-Za-z0-9]{30}", &["BB·FF-<w30>"]),
    rule("voiceflow_key", KEY, &["vf.dm.", "vf.ws."], r"VF\.(?:DM|WS)\.[0-9a-z]{24}\.[A-Za-z0-9]{16}", &["VF·.DM.<h24>.<w16>"]),
    rule("zoho_token", TOKEN, &["1000."], r"1000\.[0-9a-f]{32}\.[0-9a-f]{32}", &["10·00.<h32>.<h32>"]),
    rule("salesforce_token", TOKEN, &["00d"], r"00D[A-Za-z0-9]{12,15}![A-Za-z0-9_.]{90,120}", &["00·D<w12>!<w96>"]),
    rule("outlook_webhook", HOOK, &["outlook.office.com/webhook", "outlook.office365.com/webhook"], r"outlook\.office(?:365)?\.com/webhook/[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}", &["https://outlook.office.com/webhook/<uuid>@<uuid>/IncomingWebhook/<h32>/<uuid>"]),
    rule("algolia_key", KEY, &["algolia"], r#"(?i:algolia)[A-Za-z_ .-]{0,24}["' ]{0,3}[:=][>"' ]{0,3}([0-9a-z]{32})"#, &["ALGOLIA_ADMIN_KEY=<h32>"]).entropy(3.0),

    // More of them, by the prefix that each publishes.
    rule("resend_key", KEY, &["re_"], r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}", &["r·e_<w8>_<w24>"]).entropy(3.5).check(checks::no_words).not(&["re_compiled_pattern_for_all_of_the_names"]),
    rule("apify_token", TOKEN, &["apify_api_"], r"apify_api_[A-Za-z0-9]{32,40}", &["api·fy_api_<w36>"]),
    rule("browserbase_key", KEY, &["bb_live_", "bb_test_"], r"bb_(?:live|test)_[A-Za-z0-9_-]{24,40}", &["bb·_live_<w27>"]).entropy(3.3),
    rule("xata_key", KEY, &["xau_"], r"xau_[A-Za-z0-9]{30,48}", &["xa·u_<w40>"]).entropy(3.3),
    rule("onesignal_key", KEY, &["os_v2_app_", "os_v2_org_"], r"os_v2_(?:app|org)_[a-z0-9]{80,120}", &["os·_v2_app_<l104>"]),
    rule("inngest_key", KEY, &["signkey-"], r"signkey-(?:prod|test|branch)-[0-9a-f]{32,64}", &["sign·key-prod-<h64>"]),
    rule("ory_token", TOKEN, &["ory_at_", "ory_st_", "ory_pat_", "ory_rt_", "ory_wak_"], r"ory_(?:at|st|pat|rt|wak)_[A-Za-z0-9_.-]{20,120}", &["or·y_pat_<w32>"]).entropy(3.3),
    rule("cockroach_key", KEY, &["ccdb1_"], r"CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}", &["CC·DB1_<w22>_<w40>"]),
    rule("telnyx_key", KEY, &["key0"], r"KEY0[0-9A-F]{31}_[A-Za-z0-9]{22}", &["KE·Y0<H31>_<w22>"]),
    rule("stytch_secret", KEY, &["secret-live-", "secret-test-"], r"secret-(?:live|test)-[A-Za-z0-9_=-]{30,60}", &["sec·ret-live-<s36>"]).entropy(3.5),
    rule("unleash_token", TOKEN, &[":development.", ":production.", ":staging.", "*:*."], r"(?:\*|[a-z0-9-]{1,40}):(?:\*|[a-z]{3,20})\.([0-9a-f]{56,64})", &["default:production.<h60>", "*:*.<h64>"]).before(41),
    rule("cal_key", KEY, &["cal_live_", "cal_test_"], r"cal_(?:live|test)_[0-9a-f]{32}", &["ca·l_live_<h32>"]),
    rule("svix_key", KEY, &["sk_", "testsk_"], r"(?:test)?sk_[A-Za-z0-9_-]{30,48}\.(?:us|eu|in|ca|au)", &["s·k_<w32>.eu"]).entropy(3.5),
    rule("trigger_key", KEY, &["tr_dev_", "tr_prod_", "tr_stg_", "tr_pat_"], r"tr_(?:dev|prod|stg|pat)_[A-Za-z0-9]{20,48}", &["tr·_prod_<w24>"]).entropy(3.3),
    rule("convex_key", KEY, &["prod:", "dev:", "preview:"], r"(?:prod|dev|preview):[a-z0-9-]{3,60}(?::[a-z0-9-]{1,60})?\|[A-Za-z0-9+/=]{40,200}", &["pro·d:happy-animal-123|<b60>"]).entropy(3.8),
    rule("anyscale_key", KEY, &["esecret_", "aph0_"], r"(?:esecret|aph0)_[A-Za-z0-9_-]{24,80}", &["esec·ret_<w26>"]).entropy(3.3),
    rule("runpod_key", KEY, &["rpa_"], r"rpa_[A-Z0-9]{36,48}", &["rp·a_<U40>"]).entropy(3.3),
    rule("brave_key", KEY, &["bsa"], r"BSA[A-Za-z0-9_-]{27,29}", &["BS·A<w28>"]).entropy(3.8).check(checks::no_words),
    rule("helicone_key", KEY, &["sk-helicone-"], r"sk-helicone-[a-z0-9-]{24,60}", &["s·k-helicone-<l7>-<l7>-<l7>-<l7>"]),
    rule("litellm_prefixed_key", KEY, &["sk-"], r"sk-[A-Za-z0-9_-]{1,12}-[A-Za-z0-9]{32,64}", &["s·k-ab-<w40>"]).entropy(4.2).check(checks::no_words),
    rule("dbt_token", TOKEN, &["dbtc_", "dbtu_"], r"dbt[cu]_[A-Za-z0-9_-]{30,60}", &["db·tc_<w40>"]).entropy(3.5),
    rule("incident_key", KEY, &["rootly_", "inc_"], r"(?:rootly|inc)_[0-9a-f]{64}", &["roo·tly_<h64>"]),
    rule("porkbun_key", KEY, &["pk1_", "sk1_"], r"[ps]k1_[0-9a-f]{64}", &["s·k1_<h64>"]),
    rule("depot_token", TOKEN, &["depot_org_", "depot_project_", "depot_user_"], r"depot_(?:org|project|user)_[0-9a-f]{40,80}", &["dep·ot_org_<h64>"]),
    rule("chromatic_token", TOKEN, &["chpt_"], r"chpt_[0-9a-f]{12,20}", &["ch·pt_<h15>"]),
    rule("rapidapi_key", KEY, &["msh"], r"[0-9a-z]{10}msh[0-9a-z]{15}p1[0-9a-z]{6}jsn[0-9a-z]{12}", &["<h10>ms·h<h15>p1<h6>jsn<h12>"]).before(10),
    rule("swarm_token", TOKEN, &["swmtkn-1-"], r"SWMTKN-1-[0-9a-z]{40,60}-[0-9a-z]{20,30}", &["docker swarm join --token SWM·TKN-1-<l50>-<l25>"]),
    rule("riot_key", KEY, &["rgapi-"], r"RGAPI-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", &["RG·API-<uuid>"]),
    rule("turnstile_secret", KEY, &["0x4aaaaaa"], r"0x4AAAAAA[A-Za-z0-9_-]{26,34}", &["0x·4AAAAAA<w28>"]).entropy(3.5),
    rule("node_address_key", KEY, &[".infura.io/", ".alchemy.com/", ".quiknode.pro/", ".g.alchemy.com/", "rpc.ankr.com/"], r"(?:infura\.io/(?:ws/)?v\d/|alchemy\.com/v\d/|quiknode\.pro/|ankr\.com/[a-z_]{2,24}/)([A-Za-z0-9_-]{32,64})", &["https://mainnet.infura.io/v3/<h32>", "https://eth-mainnet.g.alchemy.com/v2/<w32>"]).before(1).entropy(3.0),
    rule("fal_key", KEY, &["fal_key", "fal.config"], r#"(?i:fal)[^\n]{1,30}?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9a-f]{32})"#, &["FAL_KEY=<uuid>:<h32>"]),
    rule("azure_function_key", KEY, &["azurewebsites.net/api/"], r"azurewebsites\.net/api/[^\s\x22'?]{1,120}\?(?:[^\s\x22']{1,80}&)?code=([A-Za-z0-9_/+%=-]{40,80})", &["https://a.azurewebsites.net/api/run?code=<s54>=="]).reach(360).entropy(3.5),
    rule("session_cookie", TOKEN, &["phpsessid=", "jsessionid=", "sessionid=", "connect.sid=", "session_id=", "asp.net_sessionid=", "_session="], r"(?i:PHPSESSID|JSESSIONID|sessionid|connect\.sid|session_id|ASP\.NET_SessionId|_session)=([A-Za-z0-9%._-]{20,400})", &["Cookie: PHPSESSID=<l26>; a=b", "Set-Cookie: connect.sid=s%3A<w32>.<w43>; Path=/", "Cookie: _shop_session=<w40>"]).reach(420).entropy(3.3).check(checks::no_words),
    rule("encoded_password_element", PASSWORD, &["encoding=\"base64\">"], r#"(?i)<pass(?:word)? encoding="base64">([A-Za-z0-9+/]{8,200}={0,2})<"#, &[r#"<Pass encoding="base64">aHVudGVyMjJodW50ZXI=</Pass>"#]).before(10),
    rule("xml_private_key", PRIVATE_KEY, &["<rsakeyvalue>"], r"<RSAKeyValue>[\sA-Za-z0-9+/=<>]{100,2400}<D>([A-Za-z0-9+/=\s]{80,800})</D>", &["<RSAKeyValue><Modulus><b172></Modulus><Exponent>AQAB</Exponent><P><b86></P><D><b172></D></RSAKeyValue>"]).reach(4200).entropy(3.5),
    rule("ssh2_private_key", PRIVATE_KEY, &["---- begin ssh2"], r"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----[^-]{60,}---- END SSH2 ENCRYPTED PRIVATE KEY ----", &["---- BEGIN SSH2 ENCRYPTED PRIV·ATE KEY ----\nComment: x\n<b64>\n<b64>\n---- END SSH2 ENCRYPTED PRIV·ATE KEY ----"]).reach(16_000).entropy(3.0),

    // People.
    rule("facebook_token", TOKEN, &["eaa", "eaac"], r"EAA(?:CEdEose0cBA[A-Za-z0-9]{20,}|[A-Za-z0-9]{80,})", &["EA·A<w180>", "EA·ACEdEose0cBA<w60>"]).reach(420).entropy(4.0),
    rule("facebook_app_token", TOKEN, &["facebook", "fb_", "graph.", "access_token"], r"(?i:facebook|fb_|graph\.|access_token)[^\n]{0,60}?(\d{15,16}(?:\||%7C)[A-Za-z0-9_-]{27})", &["facebook <d16>|<s27>"]).entropy(3.3),
    rule("twitter_bearer", TOKEN, &["aaaaaaaaaaaaaaaaaaaaaa"], r"A{20,30}([A-Za-z0-9%]{60,120})", &["AAAAAAAAAAAAAAAAAAAAAA<w20>%2B<w60>"]).entropy(3.0),
    rule("instagram_token", TOKEN, &["igqv", "igaa"], r"IG(?:QV|AA)[A-Za-z0-9_-]{100,}", &["IG·QV<w140>"]).reach(320),
    rule("linkedin_token", TOKEN, &["aqx", "aqv", "aqu", "aqw"], r"AQ[UVWX][A-Za-z0-9_-]{150,}", &["AQ·X<s180>"]).reach(420).entropy(4.5),
    rule("twitch_token", TOKEN, &["oauth:"], r"oauth:([a-z0-9]{30})", &["PASS oauth:<l30>"]).entropy(3.3),
    rule("spotify_secret", KEY, &["spotify"], r#"(?i:spotify)[A-Za-z_ .-]{0,24}["' ]{0,3}[:=][>"' ]{0,3}([0-9a-f]{32})"#, &["SPOTIFY_CLIENT_SECRET=<h32>"]).entropy(3.0),

    // Formats of their own.
    rule("jwt", TOKEN, &["eyj"], r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{0,}){0,3}", &["eyJhbGciOiJIUzI1NiJ9.eyJ<s40>.<s43>"]).reach(8192).check(checks::jwt).not(&["eyJ<w20>.<w20>.<w20>", "eyJhbGciOiJIUzI1NiJ9"]),
    rule("jwt_in_base64", TOKEN, &["zxlk"], r"ZXlK[A-Za-z0-9+/_-]{60,}={0,2}", &["ZXlKaGJHY2lPaUpJVXpJMU5pSjkuZXlKemRXSWlPaUl4TWpNME5UWTNPRGt3SW4wLmFiY2RlZmdoaWprbG1ub3A="]).reach(8192).check(checks::jwt_in_base64),
    rule("private_key", PRIVATE_KEY, &["-----begin"], r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:\\[rn]|\s){0,8}(?:Proc-Type|DEK-Info|Comment|Version): [^\n\\]{0,200}){0,4}[^-]{40,}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----", &["-----BEGIN RSA PRIV·ATE KEY-----\n<b64>\n<b64>\n-----END RSA PRIV·ATE KEY-----", "-----BEGIN OPENSSH PRIV·ATE KEY-----\\n<b64>\\n<b64>\\n-----END OPENSSH PRIV·ATE KEY-----", "-----BEGIN EC PRIV·ATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,<H32>\n\n<b64>\n-----END EC PRIV·ATE KEY-----"]).reach(48_000).check(checks::pem).entropy(3.0).not(&["-----BEGIN PRIV·ATE KEY-----\nanything\n-----END PRIV·ATE KEY-----", "-----BEGIN PUBLIC KEY-----\n<b64>\n-----END PUBLIC KEY-----"]),
    rule("private_key_cut_off", PRIVATE_KEY, &["-----begin"], r#"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\\[rn]|[\s"',+])+[A-Za-z0-9+/=\s\\]{60,}"#, &["-----BEGIN RSA PRIV·ATE KEY-----\n<b64>\n<b64>"]).reach(48_000).entropy(3.5),
    rule("base64_private_key", PRIVATE_KEY, &["ls0tls1crudjtib"], r"LS0tLS1CRUdJTiB[A-Za-z0-9+/]{60,}={0,2}", &["client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tL<b120>"]).reach(48_000).check(checks::base64_private),
    rule("putty_key", PRIVATE_KEY, &["private-lines:"], r"Private-Lines: \d{1,4}\s+((?:[A-Za-z0-9+/=]{1,80}\s{1,2})+)", &["PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: a\nPublic-Lines: 1\n<b64>\nPrivate-Lines: 1\n<b48>\n"]).reach(16_000),
    rule("age_key", PRIVATE_KEY, &["age-secret-key-1"], r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", &["AGE-SEC·RET-KEY-1<R58>"]),
    rule("age_plugin_key", PRIVATE_KEY, &["age-plugin-"], r"AGE-PLUGIN-[A-Z0-9]{2,20}-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{30,200}", &["AGE-PLU·GIN-YUBIKEY-1<R40>"]),
    rule("wireguard_key", PRIVATE_KEY, &["privatekey", "presharedkey"], r"(?i:PrivateKey|PresharedKey)\s{0,4}=\s{0,4}([A-Za-z0-9+/]{43}=)", &["[Interface]\nPrivateKey = <b43>="]).entropy(3.8),
    rule("jwk_private", PRIVATE_KEY, &["\"d\""], r#""d"\s{0,4}:\s{0,4}"([A-Za-z0-9_-]{42,})""#, &[r#"{"kty":"OKP","crv":"Ed25519","d":"<s43>"}"#]).reach(720).entropy(4.0),
    rule("kubernetes_token", TOKEN, &["bootstrap-token", "kubeadm join"], r"kubeadm join [^\n]{1,120}--token ([a-z0-9]{6}\.[a-z0-9]{16})", &["kubeadm join 10.0.0.1:6443 --token <l6>.<l16>"]),
    rule("basic_auth", PASSWORD, &["basic "], r"(?i:basic) {1,3}([A-Za-z0-9+/]{8,}={0,2})", &["Authorization: Basic dXNlcjpodW50ZXIyMg=="]).reach(420).check(checks::user_and_password).entropy(2.0).not(&["Basic understanding", "Basic <w21>"]),
    rule("curl_user", PASSWORD, &[" -u", " --user"], r#" (?:-u|--user)[ =]{0,3}["']?[^\s:"'$<{]{0,100}:["']?([^\s"'@/$<{][^\s"']{2,200})"#, &["curl -u bob:<w12> https://example.com", "curl https://example.com --user bob:<w12>"]).check(checks::curl).entropy(2.0).not(&["docker run -u 1000:1000 x", "curl -u bob:$PASS x", "curl -u bob:xxxx x"]),
    rule("program_password", PASSWORD, &["docker login", "sshpass", "mysql ", "mysqldump ", "psexec", "redis-cli", "smbclient", "mongo ", "mongosh ", "az login", "wmic ", "sqlcmd", "ldapsearch", "curl ", "net use"], r#"(?:docker login [^\n]{0,120}?(?:-p|--password) ?=?|sshpass -p ?|mysql(?:dump)? [^\n]{0,120}?(?:-p|--password=)|(?i:psexec)[^\n]{0,160}? -p ?|redis-cli [^\n]{0,120}?-a |smbclient [^\n]{0,120}?-U [^%\s]{1,40}%|mongo(?:sh)? [^\n]{0,120}?(?:-p|--password) ?|az login [^\n]{0,120}?(?:-p|--password) |wmic [^\n]{0,120}?/password:|sqlcmd [^\n]{0,120}?-P |ldapsearch [^\n]{0,120}?-w |curl [^\n]{0,160}?--(?:proxy-)?pass(?:word)? |net use [^\n]{0,120}?/user:\S{1,60} )["']?([^\s"'$<{-][^\s"']{3,200})"#, &["docker login -u bob -p <w16>", "sshpass -p <w12> ssh bob@example.com", "mysql -u root -p<w12> db", "PsExec.exe \\\\\\\\host -u bob -p <w10> cmd"]).reach(320).check(checks::password).entropy(2.0).not(&["docker login -u bob -p $PASS", "mysql -u root -p < dump.sql"]),
    rule("sql_password", PASSWORD, &["identified by", "identified with"], r#"(?i:identified (?:by|with \S{1,40} (?:by|as))(?: password)?)\s{1,3}["']([^\s"'$<{]{4,128})["']"#, &["CREATE USER bob IDENTIFIED BY '<w12>'", "alter user bob identified with mysql_native_password by '<w12>'"]).check(checks::password).entropy(2.0).not(&["IDENTIFIED BY 'password'", "identified by 'xxxxxxxx'"]),
    rule("named_user_password", PASSWORD, &["net user ", "htpasswd -", "sqlplus ", "jdbc:oracle:"], r#"(?i:net user) \S{1,60} ([^\s"'$<{/%*][^\s"']{3,120}) /(?i:add)|htpasswd -[a-zA-Z]{0,4}b[a-zA-Z]{0,4} \S{1,120} \S{1,60} ["']?([^\s"'$<{][^\s"']{2,120})|(?:sqlplus |jdbc:oracle:[a-z]{3,4}:)(?:-[A-Za-z]+ )?[A-Za-z0-9_]{1,40}/([^\s"'@$<{&/][^\s"'@]{2,60})@"#, &["net user bob <w12> /add", "htpasswd -cb users bob <w12>", "sqlplus scott/<w10>@orcl", "jdbc:oracle:thin:scott/<w10>@db:1521:x"]).check(checks::password).entropy(2.0).not(&["net user bob /delete", "htpasswd -c users bob", "sqlplus /nolog"]),
    rule("pair_of_user_and_password", PASSWORD, &["basicauth(", "basic_auth(", "credentials(", "auth=(", "credential("], r#"(?i:basic_?auth|credentials?|auth=)\(["'][^"'\n]{1,80}["'], ?["']([^\s"'$<{]{5,120})["']"#, &["HTTPBasicAuth('bob', '<w12>')", "requests.get(url, auth=('bob', '<w12>'))"]).before(4).check(checks::password).entropy(2.0).not(&["HTTPBasicAuth('user', 'password')", "auth=('user', 'xxxxxxxx')"]),
    rule("netrc_password", PASSWORD, &["machine "], r"machine\s{1,4}\S{1,120}\s{1,20}login\s{1,4}\S{1,120}\s{1,20}password\s{1,4}(\S{3,200})", &["machine example.com login bob password <w14>"]).reach(480).check(checks::password).entropy(2.0).not(&["machine example.com login bob password xxxxxxxx"]),
    rule("pgpass_line", PASSWORD, &[":5432:"], r"(?:^|\n)[A-Za-z0-9.*-]{1,100}:5432:[^:\s]{1,60}:[^:\s]{1,60}:([^\s:]{4,200})", &["db.example.com:5432:shop:bob:<w14>"]).before(102).check(checks::password).entropy(2.0),
    rule("bcrypt_hash", HASH, &["$2a$", "$2b$", "$2y$", "$2x$"], r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}", &["$2b$12$<w53>"]),
    rule("crypt_hash", HASH, &["$1$", "$5$", "$6$", "$y$", "$apr1$"], r"\$(?:1|5|6|y|apr1)\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,24}\$(?:[./A-Za-z0-9]{1,24}\$)?[./A-Za-z0-9]{22,88}", &["$6$<w8>$<w86>", "bob:$apr1$<w8>$<w22>"]),
    rule("argon2_hash", HASH, &["$argon2"], r"\$argon2(?:id|i|d)\$v=\d{1,3}\$m=\d{1,9},t=\d{1,4},p=\d{1,3}\$[A-Za-z0-9+/]{8,64}\$[A-Za-z0-9+/]{16,100}", &["$argon2id$v=19$m=65536,t=3,p=4$<b22>$<b43>"]),
    rule("pbkdf2_hash", HASH, &["pbkdf2_sha", "$pbkdf2", "{ssha", "{sha", "scrypt$"], r"(?:pbkdf2_sha\d{1,3}\$\d{1,8}\$[A-Za-z0-9+/=]{4,40}\$[A-Za-z0-9+/=]{20,100}|\$pbkdf2(?:-sha\d{1,3})?\$[A-Za-z0-9=,+/.$]{40,200}|\{S?SHA\d{0,3}\}[A-Za-z0-9+/]{26,120}={0,2}|scrypt\$[0-9:$]{1,20}\$?[A-Za-z0-9+/=]{8,60}\$[A-Za-z0-9+/=]{32,180})", &["pbkdf2_sha256$600000$<w12>$<b43>=", "{SSHA}<b38>=="]),
    rule("cisco_hash", HASH, &["$8$", "$9$"], r"\$[89]\$[./A-Za-z0-9]{14}\$[./A-Za-z0-9]{43}", &["$8$<w14>$<w43>"]),
    rule("kerberos_hash", HASH, &["$krb5"], r"\$krb5(?:asrep|tgs|pa)\$\d{1,3}\$[^\s$]{0,200}\$[0-9a-fA-F$*]{64,}", &["$krb5asrep$23$bob@EXAMPLE.COM:<h32>$<h200>"]).reach(4096),
    rule("ntlm_hash", HASH, &["aad3b435b51404ee"], r"aad3b435b51404eeaad3b435b51404ee:([0-9a-f]{32})", &["bob:1001:aad3b435b51404eeaad3b435b51404ee:<h32>:::"]),
    rule("laravel_key", KEY, &["app_key"], r#"APP_KEY["' ]{0,3}[:=]["' ]{0,3}(base64:[A-Za-z0-9+/]{43}=)"#, &["APP_KEY=base64:<b43>="]),
    rule("django_key", KEY, &["secret_key"], r#"(?i:secret_key)["']?[ ,]{0,4}[:=,]?[ ]{0,3}["']([^\s"']{40,80})["']"#, &["SECRET_KEY = 'django-insecure-<w50>'", "os.environ.get('DJANGO_SECRET_KEY','<w50>')"]).entropy(3.5).not(&["SECRET_KEY = os.environ['SECRET_KEY']"]),
    rule("wordpress_salt", KEY, &["_key'", "_salt'"], r"_(?:KEY|SALT)',\s{0,12}'([^']{60,66})'", &["define('AUTH_KEY',         '<w64>');"]).entropy(4.0),
    rule("secure_string", PASSWORD, &["convertto-securestring"], r#"(?i:convertto-securestring) (?:(?i:-string) )?["']([^"'$]{5,200})["']"#, &["ConvertTo-SecureString \"<w16>\" -AsPlainText -Force"]).check(checks::password).entropy(2.0).not(&["ConvertTo-SecureString $plain -AsPlainText -Force", "ConvertTo-SecureString \"<password>\" -AsPlainText"]),
    rule("odbc_password", PASSWORD, &["pwd=", "password="], r#"(?i:pwd|password)=\{?([^;\s"'$<{%*][^;\s"']{3,120})\}?;"#, &["Server=db;Database=x;Uid=bob;Pwd=<w12>;", "Data Source=db;User ID=bob;Password=<w12>;"]).check(checks::connection_string).entropy(2.0).not(&["Pwd=<w12>;", "Server=db;Uid=bob;Pwd=****;"]),
    rule("cisco_secret", HASH, &["enable secret", "username "], r"(?:enable secret|username \S{1,40} (?:privilege \d{1,2} )?(?:secret|password)) \d ([A-Za-z0-9./$]{8,120})", &["enable secret 5 $1$<w4>$<w22>", "username bob password 7 <H18>"]),
];

/// An example as it stands in a text.
///
/// `<w36>` becomes 36 letters and digits, other letters choose other alphabets, `<uuid>` is one, `<github>` is a token
/// with the right checksum and `·` is left out. The same template always gives the same text.
pub fn fill(example: &str) -> String {
    let mut seed = example
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut filled = String::new();
    let mut rest = example;
    while let Some((before, after)) = rest.split_once('<') {
        filled.push_str(before);
        let blank = after.split_once('>').and_then(|(name, tail)| Some((made_up(name, &mut seed)?, tail)));
        rest = match blank {
            Some((text, tail)) => {
                filled.push_str(&text);
                tail
            }
            None => {
                filled.push('<');
                after
            }
        };
    }
    filled.push_str(rest);
    filled.replace('·', "")
}

/// What stands for the name of a blank, if it is one.
fn made_up(name: &str, seed: &mut u64) -> Option<String> {
    let mut draw = |alphabet: &str, count: usize| -> String { (0..count).map(|_| drawn(alphabet, seed)).collect() };
    match name {
        "uuid" => {
            let hex = "0123456789abcdef";
            let parts =
                [draw(hex, 8), draw(hex, 4), format!("4{}", draw(hex, 3)), format!("a{}", draw(hex, 3)), draw(hex, 12)];
            return Some(parts.join("-"));
        }
        "github" => {
            let random = draw(WORD, 30);
            return Some(format!("ghp_{random}{}", checks::github_checksum(&random)));
        }
        _ => {}
    }
    let (kind, count) = name.split_at_checked(1)?;
    let alphabet = match kind {
        "w" => WORD,
        "s" => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
        "b" => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/",
        "l" => "abcdefghijklmnopqrstuvwxyz0123456789",
        "U" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        "A" => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "h" => "0123456789abcdef",
        "H" => "0123456789ABCDEF",
        "d" => "0123456789",
        "B" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "R" => "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
        "Z" => "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
        _ => return None,
    };
    Some(draw(alphabet, count.parse().ok()?))
}

const WORD: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// One character of an alphabet. Chance need not be good here, only spread.
fn drawn(alphabet: &str, seed: &mut u64) -> char {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let at = usize::try_from((z ^ (z >> 31)) >> 33).unwrap_or(0) % alphabet.len();
    alphabet.as_bytes().get(at).map_or('0', |byte| char::from(*byte))
}
