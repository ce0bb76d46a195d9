"""Made-up secrets of many formats, and the surroundings they are found in."""

import base64
import json
import string
from collections.abc import Callable, Mapping
from random import Random

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"

Make = Callable[[Random], str]


def of(random: Random, letters: str, size: int, most: int | None = None) -> str:
    """Draw random letters; both digits and others are always among them."""
    count = random.randint(size, most or size)
    drawn = random.choices(letters, k=count)
    drawn[random.randrange(1, count - 1)] = random.choice([c for c in letters if c.isdigit()])
    drawn[0] = random.choice([c for c in letters if c.isalnum()])
    drawn[-1] = random.choice([c for c in letters if c.isalnum()])
    return "".join(drawn)


def form(prefix: str, letters: str, size: int, most: int | None = None) -> Make:
    """Make secrets that are a prefix and random letters; `|` parts prefixes to choose from."""
    return lambda random: random.choice(prefix.split("|")) + of(random, letters, size, most)


def _jwt(random: Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": of(random, LOWER, 12), "iat": random.randrange(10**9, 2 * 10**9)}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{of(random, URLSAFE, 43)}"


def _uuid(random: Random) -> str:
    return "-".join(of(random, HEX, n) for n in (8, 4, 4, 4, 12))


def _pem(random: Random) -> str:
    kind = random.choice(["RSA ", "EC ", "OPENSSH ", "DSA ", "ENCRYPTED ", ""])
    lines = [of(random, BASE64, 64) for _ in range(random.randint(3, 20))]
    body = "\n".join([*lines, of(random, BASE64, 20) + "=="])
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def _pgp(random: Random) -> str:
    body = "\n".join(of(random, BASE64, 64) for _ in range(8))
    name = "PGP PRIVATE KEY BLOCK"
    return f"-----BEGIN {name}-----\nVersion: 2\n\n{body}\n=aB3d\n-----END {name}-----"


def letters(random: Random) -> str:
    """Make a password of small letters alone, as no word has them."""
    return "".join(random.choices("bcdfghjklmnpqrstvwxz", k=random.randint(12, 20)))


def chosen(random: Random) -> str:
    """Make a password as people choose them: two words, digits, a sign."""
    first, second = random.sample(["Summer", "Tiger", "Coffee", "River", "Falcon"], 2)
    return f"{first}{second}{random.randint(10, 9999)}{random.choice('!@#*')}"


def password(random: Random) -> str:
    """Make a password with digits and signs that need no quoting."""
    return of(random, ALNUM + "!@#%^*_+~.-", 10, 24)


# Formats that give themselves away by their shape, wherever they stand.
SHAPED: Mapping[str, Make] = {
    "aws": form("AKIA|ASIA", UPPER, 16),
    "github": form("ghp_|gho_|ghu_|ghs_|ghr_", ALNUM, 36),
    "github-fine": lambda r: f"github_pat_{of(r, ALNUM, 22)}_{of(r, ALNUM, 59)}",
    "gitlab": form("glpat-|glrt-|gldt-|glptt-", URLSAFE, 20),
    "slack": lambda r: f"xox{r.choice('bpars')}-{of(r, '0123456789', 12)}-{of(r, ALNUM, 24)}",
    "slack-app": lambda r: (
        f"xapp-1-A{of(r, UPPER, 10)}-{of(r, string.digits, 13)}-{of(r, HEX, 64)}"
    ),
    "slack-hook": lambda r: (
        f"https://hooks.slack.com/services/T{of(r, UPPER, 9)}/B{of(r, UPPER, 9)}/{of(r, ALNUM, 24)}"
    ),
    "stripe": form("sk_live_|rk_live_|sk_test_", ALNUM, 24, 99),
    "stripe-hook": form("whsec_", ALNUM, 32),
    "openai": form("sk-", ALNUM, 48),
    "openai-project": form("sk-proj-|sk-svcacct-", URLSAFE, 74, 156),
    "anthropic": lambda r: f"sk-ant-api03-{of(r, URLSAFE, 93)}AA",
    "openrouter": form("sk-or-v1-", HEX, 64),
    "google": form("AIza", URLSAFE, 35),
    "google-oauth": form("ya29.", URLSAFE, 60, 200),
    "google-client": form("GOCSPX-", URLSAFE, 28),
    "npm": form("npm_", ALNUM, 36),
    "pypi": form("pypi-AgEIcHlwaS5vcmc", URLSAFE, 70, 160),
    "docker": form("dckr_pat_", URLSAFE, 27),
    "digitalocean": form("dop_v1_|doo_v1_|dor_v1_", HEX, 64),
    "huggingface": form("hf_", ALNUM, 34),
    "twilio": form("SK", HEX, 32),
    "sendgrid": lambda r: f"SG.{of(r, URLSAFE, 22)}.{of(r, URLSAFE, 43)}",
    "mailgun": form("key-", HEX, 32),
    "mailchimp": lambda r: f"{of(r, HEX, 32)}-us{r.randint(1, 21)}",
    "telegram": lambda r: f"{r.randrange(10**8, 10**10)}:AA{of(r, URLSAFE, 33)}",
    "discord": lambda r: f"M{of(r, ALNUM, 23)}.{of(r, URLSAFE, 6)}.{of(r, URLSAFE, 27, 38)}",
    "discord-hook": lambda r: (
        f"https://discord.com/api/webhooks/{of(r, string.digits, 18)}/{of(r, URLSAFE, 68)}"
    ),
    "shopify": form("shpat_|shpca_|shppa_|shpss_", HEX, 32),
    "square": form("sq0atp-|sq0csp-", URLSAFE, 22, 43),
    "square-eaaa": form("EAAA", URLSAFE, 60),
    "facebook": form("EAAC|EAAG", ALNUM, 120, 180),
    "braintree": lambda r: f"access_token$production${of(r, LOWER, 16)}${of(r, HEX, 32)}",
    "heroku": form("HRKU-", URLSAFE, 60),
    "linear": form("lin_api_", ALNUM, 40),
    "notion": form("ntn_|secret_", ALNUM, 43),
    "figma": form("figd_", URLSAFE, 40),
    "atlassian": form("ATATT3xFfGF0", URLSAFE, 180),
    "databricks": form("dapi", HEX, 32),
    "newrelic": form("NRAK-", UPPER, 27),
    "grafana": lambda r: f"glsa_{of(r, ALNUM, 32)}_{of(r, HEX, 8)}",
    "grafana-cloud": form("glc_eyJ", BASE64, 60, 120),
    "sentry": form("sntrys_eyJ", BASE64, 90),
    "vault": form("hvs.", URLSAFE, 24, 95),
    "terraform": lambda r: f"{of(r, ALNUM, 14)}.atlasv1.{of(r, URLSAFE, 64)}",
    "doppler": form("dp.pt.", ALNUM, 43),
    "pulumi": form("pul-", HEX, 40),
    "postman": lambda r: f"PMAK-{of(r, HEX, 24)}-{of(r, HEX, 34)}",
    "rubygems": form("rubygems_", HEX, 48),
    "crates": form("cio", ALNUM, 32),
    "nuget": form("oy2", LOWER, 43),
    "supabase": form("sbp_", HEX, 40),
    "planetscale": form("pscale_tkn_|pscale_pw_", URLSAFE, 43),
    "netlify": form("nfp_", ALNUM, 36),
    "fly": form("fm2_", BASE64, 200),
    "azure-client": lambda r: f"{of(r, ALNUM, 3)}8Q~{of(r, ALNUM + '_~.-', 34)}",
    "age": form("AGE-SECRET-KEY-1", UPPER, 58),
    "jwt": _jwt,
    "groq": form("gsk_", ALNUM, 52),
    "xai": form("xai-", ALNUM, 80),
    "perplexity": form("pplx-", ALNUM, 48),
    "replicate": form("r8_", ALNUM, 37),
    "nvidia": form("nvapi-", URLSAFE, 64),
    "cerebras": form("csk-", LOWER, 48),
    "pinecone": lambda r: f"pcsk_{of(r, ALNUM, 6)}_{of(r, ALNUM, 62)}",
    "voyage": form("pa-", URLSAFE, 43),
    "posthog": form("phx_|phs_", ALNUM, 43),
    "elevenlabs": form("sk_", HEX, 48),
    "firecrawl": form("fc-", HEX, 32),
    "browserbase": form("bb_live_", URLSAFE, 27),
    "cursor": form("key_", HEX, 64),
    "composio": form("ak_", URLSAFE, 20),
    "cloudflare-origin": lambda r: f"v1.0-{of(r, HEX, 24)}-{of(r, HEX, 146)}",
    "plaid": lambda r: f"access-production-{_uuid(r)}",
    "sonar": form("sqp_|squ_|sqa_", HEX, 40),
    "launchdarkly": lambda r: f"sdk-{_uuid(r)}",
    "artifactory": form("AKCp", ALNUM, 69),
    "artifactory-reference": form("cmVmdGtu", ALNUM, 56),
    "intercom": form("dG9rOg", ALNUM, 54),
    "tailscale": lambda r: f"tskey-auth-{of(r, ALNUM, 12)}-{of(r, ALNUM, 32)}",
    "unknown-prefix": form("hmx_live_|wq_key_|abc-token-|zap_sk_", ALNUM, 28, 44),
    "scaleway": form("SCW", UPPER, 17),
    "gitlab-runner": form("GR1348941", URLSAFE, 20),
    "razorpay": form("rzp_live_", ALNUM, 14),
    "mailersend": form("mlsn.", HEX, 64),
    "mailgun-signing": lambda r: f"{of(r, HEX, 32)}-{of(r, HEX, 8)}-{of(r, HEX, 8)}",
    "uuid-pair": lambda r: f"{_uuid(r)}:{of(r, HEX, 32)}",
    "paseto": form("v2.local.", URLSAFE, 100),
    "google-refresh": form("1//0", URLSAFE, 60, 100),
    "packagist": form("packagist_uut_", HEX, 64),
    "airtable": lambda r: f"pat{of(r, ALNUM, 14)}.{of(r, HEX, 64)}",
    "bcrypt": form("$2y$10$", ALNUM + "./", 53),
    "pem": _pem,
    "pgp": _pgp,
}

# Formats that only their surroundings give away: a template, and what makes the value.
IN_CONTEXT: Mapping[str, tuple[str, Make]] = {
    "aws-secret": ("aws_secret_access_key = {}", form("", BASE64, 40)),
    "aws-secret-env": ("AWS_SECRET_ACCESS_KEY={}", form("", BASE64, 40)),
    "datadog": ("DD_API_KEY={}", form("", HEX, 32)),
    "cloudflare": ("CLOUDFLARE_API_TOKEN={}", form("", URLSAFE, 40)),
    "mistral": ('MISTRAL_API_KEY="{}"', form("", ALNUM, 32)),
    "cohere": ("cohere_api_key: {}", form("", ALNUM, 40)),
    "heroku-uuid": ("HEROKU_API_KEY={}", _uuid),
    "railway": ("RAILWAY_TOKEN={}", _uuid),
    "azure-devops": ("AZURE_DEVOPS_PAT={}", form("", LOWER, 52)),
    "okta": ("Authorization: SSWS {}", form("00", URLSAFE, 40)),
    "cookie": ("Cookie: theme=dark; session_id={}; lang=en", form("", ALNUM, 48)),
    "django": ("SECRET_KEY = '{}'", form("", ALNUM + "!@#$%^&*(-_=+)", 50)),
    "vercel": ("VERCEL_TOKEN={}", form("", ALNUM, 24)),
    "azure-storage": (
        "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={};EndpointSuffix=core",
        lambda r: of(r, BASE64, 86) + "==",
    ),
    "azure-sas": (
        "https://a.blob.core.windows.net/c?sv=2022-11-02&sr=b&sig={}&se=2026",
        lambda r: of(r, ALNUM, 40) + "%3D",
    ),
    "bearer": ('curl -H "Authorization: Bearer {}" https://api.test/v1', form("", URLSAFE, 20, 60)),
    "basic": ("Authorization: Basic {}", lambda r: of(r, ALNUM, 24, 40) + "="),
    "header-key": ("curl -H 'X-Api-Key: {}' https://api.test", form("", ALNUM, 32)),
    "url": ("psql postgres://app:{}@db.internal:5432/app", form("", ALNUM + "!_.-", 8, 20)),
    "redis": ("REDIS_URL=redis://:{}@cache:6379/0", form("", ALNUM, 12, 30)),
    "mssql": ("Server=db;Database=x;User Id=sa;Password={};Encrypt=true", password),
    "netrc": ("machine api.test login bob password {}", password),
    "mysql": ("mysql -u root -p{} shop", form("", ALNUM + "!_.", 8, 16)),
    "password-flag": ("tool login --password {} --user bob", password),
    "token-flag": ("tool deploy --token {}", form("", ALNUM, 20, 40)),
    "token-flag=": ("tool deploy --api-key={} --dry-run", form("", ALNUM, 20, 40)),
    "curl-user": ("curl -u admin:{} https://api.test", password),
    "env": ("export DB_PASSWORD={}; ls", password),
    "env-quoted": ('SECRET_KEY="{}"', password),
    "yaml": ("db:\n  password: {}\n  port: 5432", password),
    "yaml-quoted": ("client_secret: '{}'", form("", ALNUM, 24, 40)),
    "json-key": ('{{"api_key": "{}", "model": "small"}}', form("", ALNUM, 20, 48)),
    "json-camel": ('{{"accessToken":"{}"}}', form("", ALNUM, 20, 48)),
    "python": ('client = Client(token="{}", retries=3)', form("", ALNUM, 20, 48)),
    "javascript": ("const apiKey = '{}';", form("", ALNUM, 20, 48)),
    "ruby": (':secret => "{}"', form("", ALNUM, 20, 48)),
    "query": ("GET https://api.test/v1?access_token={}&page=2", form("", ALNUM, 20, 48)),
    "npmrc": ("//registry.test/:_authToken={}", form("", URLSAFE, 36)),
    "letters-quoted": ('password = "{}"', letters),
    "letters-yaml": ("db:\n  password: {}", letters),
    "letters-flag": ("tool --password {} run", letters),
    "chosen-ini": ("[client]\npassword = {}", chosen),
    "chosen-sql": ("ALTER USER bob IDENTIFIED BY '{}';", chosen),
    "spoken-password": ("the password for the admin is {}", chosen),
    "spoken-token": ("the token for staging is {} now", form("", ALNUM, 32)),
    "unknown-prefix-spoken": ("my token {} is gone", form("qzkt_|vrb-", ALNUM, 28, 44)),
    "named-yaml": ('- name: STRIPE_SECRET\n  value: "{}"', form("", HEX, 32)),
    "named-json": ('{{"name": "DD_API_KEY", "value": "{}"}}', form("", HEX, 32)),
    "attribute": ('<add key="ApiSecret" value="{}" />', form("", ALNUM, 24)),
    "terraform-default": ('variable "db_password" {{\n  default = "{}"\n}}', password),
    "dockerfile": ("ENV SERVICE_TOKEN {}", form("", HEX, 40)),
    "requirepass": ("requirepass {}", password),
    "pgpass": ("db.test:5432:shop:app:{}", form("", ALNUM, 12, 20)),
    "signed-url": ("https://b.test/k?X-Amz-Signature={}", form("", HEX, 64)),
    "docker-auth": ('{{"auths":{{"r.test":{{"auth":"{}"}}}}}}', form("", ALNUM, 32)),
}

# Where a shaped secret may stand.
PLACES = (
    "{}",
    "KEY={}",
    'export SERVICE_KEY="{}"',
    "the key is {} and nothing else",
    "curl -H 'x-key: {}' https://api.test",
    'value: "{}",',
    "2026-01-02T03:04:05Z INFO using {} for the call",
    'const k = "{}";',
    "- name: K\n  value: {}\n",
    '{{"content": "{}", "n": 1}}',
    "```\n{}\n```",
    "print('{}')",
    "\x1b[32m{}\x1b[0m",
    "(see {})",
    "a\t{}\tb",
    "{}, {{}}",
)


def plant(random: Random, name: str) -> tuple[str, str, str]:
    """Return a format's name, a secret of it, and a text with the secret in it."""
    if name in SHAPED:
        secret, place = SHAPED[name](random), random.choice(PLACES)
    else:
        place, secret = IN_CONTEXT[name][0], IN_CONTEXT[name][1](random)
    return name, secret, place.format(secret)


def planted(random: Random, count: int) -> list[tuple[str, str, str]]:
    """Plant many secrets, every format in turn."""
    names = [*SHAPED, *IN_CONTEXT]
    return [plant(random, names[number % len(names)]) for number in range(count)]


def value_of(name: str, secret: str) -> str:
    """Return the part of a planted text that must be gone: of a webhook's URL only its end."""
    return secret.rsplit("/", 1)[-1] if name.endswith("-hook") and "://" in secret else secret
