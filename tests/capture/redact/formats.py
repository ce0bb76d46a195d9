"""Every public format of secrets, as shapes to draw values from, and the ways they are written.

A shape is literal text with classes of letters and counts: `b_[a-z0-9]{44}`, and `(a|b)` for a
choice. A format that nothing but a name gives away stands behind the name of its service.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

_TOKEN = re.compile(r"\[([^\]]+)\]|\(([^)]+)\)|\\(.)|(.)", re.DOTALL)
_COUNT = re.compile(r"\{(\d+)(?:,(\d+))?\}")
_FEW = 2  # a run of one letter, as some formats have it, tells nothing
_RANGE = re.compile(r"(\w)-(\w)|(.)", re.DOTALL)
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


class Format(NamedTuple):
    """One kind of secret: the service whose name stands near it, empty if none must, its shape."""

    name: str
    shape: str


def draw(random: Random, shape: str) -> str:
    """Draw a value of a shape."""
    drawn: list[str] = []
    place = 0
    while token := _TOKEN.match(shape, place):
        place = token.end()
        count = _COUNT.match(shape, place)
        size = 1
        if count:
            place = count.end()
            size = random.randint(int(count[1]), int(count[2] or count[1]))
        if token[2]:
            drawn += [random.choice(token[2].split("|")) for _ in range(size)]
        elif token[1]:
            drawn += random.choices(_letters(token[1]), k=size)
        else:
            drawn += [token[3] or token[4]] * size
    return "".join(drawn)


def _letters(spec: str) -> str:
    found = ""
    for part in _RANGE.finditer(spec):
        if part[3]:
            found += part[3]
        else:
            found += "".join(map(chr, range(ord(part[1]), ord(part[2]) + 1)))
    return found


# Shapes that stand for themselves, wherever they are.
ALONE: Mapping[str, str] = {
    "1password-secret": "A3-[A-Z0-9]{6}-[A-Z0-9]{11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
    "1password-secret-parts": f"A3-[A-Z0-9]{{6}}-[A-Z0-9]{{6}}{'-[A-Z0-9]{5}' * 4}",
    "1password-service": "ops_eyJ[a-zA-Z0-9+/]{250,300}",
    "adobe-secret": "p8e-[a-z0-9]{32}",
    "age": "AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}",
    "airtable-personal": "pat[A-Za-z0-9]{14}.[a-f0-9]{64}",
    "alibaba-id": "LTAI[a-z0-9]{20}",
    "anthropic-admin": "sk-ant-admin01-[a-zA-Z0-9_-]{93}AA",
    "anthropic": "sk-ant-api03-[a-zA-Z0-9_-]{93}AA",
    "artifactory": "AKCp[A-Za-z0-9]{69}",
    "artifactory-reference": "cmVmd[A-Za-z0-9]{59}",
    "atlassian": "ATATT3[A-Za-z0-9_=-]{186}",
    "authress": (
        "(sc|ext|scauth|authress)_[a-z0-9]{5,30}.[a-z0-9]{4,6}.acc[_-][a-z0-9-]{10,32}"
        ".[a-z0-9+/_=-]{30,120}"
    ),
    "aws": "(AKIA|ASIA|ABIA|ACCA|A3TX)[A-Z2-7]{16}",
    "bedrock": "ABSK[A-Za-z0-9+/]{109,269}",
    "bedrock-short": "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9]{40}",
    "azure-client": "[a-zA-Z0-9_~.]{3}[0-9]Q~[a-zA-Z0-9_~.-]{31,34}",
    "clickhouse": "4b1d[A-Za-z0-9]{38}",
    "clojars": "CLOJARS_[a-z0-9]{60}",
    "cloudflare-origin": "v1.0-[a-f0-9]{24}-[a-f0-9]{146}",
    "databricks": "dapi[a-f0-9]{32}",
    "defined-networking": "dnkey-[a-z0-9=_-]{26}-[a-z0-9=_-]{52}",
    "digitalocean": "(doo|dop|dor)_v1_[a-f0-9]{64}",
    "doppler": "dp.pt.[a-z0-9]{43}",
    "duffel": "duffel_(test|live)_[a-z0-9_=-]{43}",
    "dynatrace": "dt0c01.[a-z0-9]{24}.[a-z0-9]{64}",
    "easypost": "(EZAK|EZTK)[a-z0-9]{54}",
    "facebook-page": "EAA(M|C)[a-zA-Z0-9]{100,160}",
    "flutterwave-encryption": "FLWSECK_TEST-[a-h0-9]{12}",
    "flutterwave-public": "FLWPUBK_TEST-[a-h0-9]{32}-X",
    "flutterwave": "FLWSECK_TEST-[a-h0-9]{32}-X",
    "fly-old": "fo1_[a-zA-Z0-9_-]{43}",
    "fly-macaroon": "(fm1a|fm1r|fm2)_[a-zA-Z0-9+/]{100,200}",
    "frameio": "fio-u-[a-z0-9_=-]{64}",
    "google-api": "AIza[A-Za-z0-9_-]{35}",
    "github": "(ghp|gho|ghu|ghs|ghr)_[0-9a-zA-Z]{36}",
    "github-fine": "github_pat_[A-Za-z0-9_]{82}",
    "gitlab-job": "glcbt-[0-9a-zA-Z]{1,5}_[0-9a-zA-Z_-]{20}",
    "gitlab": "(gldt|glffct|glft|glrt|glsoat|glpat)-[0-9a-zA-Z_-]{20}",
    "gitlab-mail": "glimt-[0-9a-zA-Z_-]{25}",
    "gitlab-agent": "glagent-[0-9a-zA-Z_-]{50}",
    "gitlab-oauth": "gloas-[0-9a-zA-Z_-]{64}",
    "gitlab-routable": "glpat-[0-9a-zA-Z_-]{27,60}.[0-9a-z]{9}",
    "gitlab-runner-routable": "glrt-t[0-9]_[0-9a-zA-Z_-]{27,60}.[0-9a-z]{9}",
    "gitlab-trigger": "glptt-[0-9a-f]{40}",
    "gitlab-registration": "GR1348941[A-Za-z0-9_-]{20}",
    "grafana-old": "eyJrIjoi[A-Za-z0-9]{70,200}",
    "grafana-cloud": "glc_[A-Za-z0-9+/]{32,200}",
    "grafana-service": "glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",
    "harness": "(pat|sat).[a-zA-Z0-9_-]{22}.[a-zA-Z0-9]{24}.[a-zA-Z0-9]{20}",
    "terraform": "[a-z0-9]{14}.atlasv1.[a-z0-9_=-]{60,70}",
    "heroku": "HRKU-AA[0-9a-zA-Z_-]{58}",
    "huggingface": "(hf|api_org)_[a-z]{34}",
    "huggingface-mixed": "(hf|api_org)_[a-zA-Z]{34}",
    "infracost": "ico-[a-zA-Z0-9]{32}",
    "intra42": "s-s4t2(ud|af)-[a-f0-9]{64}",
    "jwt": "eyJ[a-zA-Z0-9]{17,60}.eyJ[a-zA-Z0-9_-]{17,200}.[a-zA-Z0-9_-]{10,60}",
    "linear": "lin_api_[a-z0-9]{40}",
    "maxmind": "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
    "newrelic-browser": "NRJS-[a-f0-9]{19}",
    "newrelic-insert": "NRII-[a-zA-Z0-9-]{32}",
    "newrelic-user": "NRAK-[A-Z0-9]{27}",
    "notion": "ntn_[0-9]{11}[A-Za-z0-9]{35}",
    "npm": "npm_[a-z0-9]{36}",
    "octopus": "API-[A-Z0-9]{26}",
    "openai": "sk-[a-zA-Z0-9]{20}T3BlbkFJ[a-zA-Z0-9]{20}",
    "openai-project": "sk-(proj|svcacct|admin)-[A-Za-z0-9_-]{74}T3BlbkFJ[A-Za-z0-9_-]{74}",
    "openshift": "sha256~[A-Za-z0-9_-]{43}",
    "perplexity": "pplx-[a-zA-Z0-9]{48}",
    "plaid": f"access-(sandbox|development|production)-{_UUID}",
    "planetscale": "pscale_(tkn|oauth|pw)_[A-Za-z0-9_=.-]{32,64}",
    "postman": "PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "prefect": "pnu_[a-zA-Z0-9]{36}",
    "pulumi": "pul-[a-f0-9]{40}",
    "pypi": "pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,200}",
    "readme": "rdme_[a-z0-9]{70}",
    "rubygems": "rubygems_[a-f0-9]{48}",
    "scalingo": "tk-us-[A-Za-z0-9_-]{48}",
    "sendgrid": "SG.[a-zA-Z0-9_-]{22}.[a-zA-Z0-9_-]{43}",
    "sendgrid-loose": "SG.[a-z0-9=_-]{66}",
    "sendinblue": "xkeysib-[a-f0-9]{64}-[a-z0-9]{16}",
    "sentry-org": (
        "sntrys_eyJpYXQiO[a-zA-Z0-9+/]{10,60}LCJyZWdpb25fdXJs[a-zA-Z0-9+/]{10,60}"
        "=_[a-zA-Z0-9+/]{43}"
    ),
    "sentry-user": "sntryu_[a-f0-9]{64}",
    "settlemint": "sm_(aat|pat|sat)_[a-zA-Z0-9]{16}",
    "shippo": "shippo_(live|test)_[a-fA-F0-9]{40}",
    "shopify": "(shpat|shpca|shppa|shpss)_[a-fA-F0-9]{32}",
    "slack-app": "xapp-[0-9]-[A-Z0-9]{11}-[0-9]{13}-[a-z0-9]{64}",
    "slack-bot": "xoxb-[0-9]{10,13}-[0-9]{10,13}-[a-zA-Z0-9]{24}",
    "slack-config": "xoxe.xox(b|p)-[0-9]-[A-Z0-9]{163,166}",
    "slack-refresh": "xoxe-[0-9]-[A-Z0-9]{146}",
    "slack-old-bot": "xoxb-[0-9]{8,14}-[a-zA-Z0-9]{18,26}",
    "slack-old": "xox(o|s)-[0-9]{9,12}-[0-9]{9,12}-[0-9]{9,12}-[a-f0-9]{10,32}",
    "slack-workspace": "xox(a|r)-[0-9]-[0-9a-zA-Z]{8,48}",
    "slack-user": "xox(p|e)-[0-9]{10,13}-[0-9]{10,13}-[0-9]{10,13}-[a-zA-Z0-9]{28,34}",
    "sourcegraph": "sgp_(local|0123abcdef456789)_[a-fA-F0-9]{40}",
    "sourcegraph-old": "sgp_[a-fA-F0-9]{40}",
    "square": "(EAAA|sq0atp-)[A-Za-z0-9_-]{22,60}",
    "stripe": "(sk|rk)_(test|live|prod)_[a-zA-Z0-9]{10,99}",
    "twilio": "SK[0-9a-fA-F]{32}",
    "typeform": "tfp_[a-z0-9_.=-]{59}",
    "vault-batch": "hvb.[A-Za-z0-9_-]{138,300}",
    "vault": "hvs.[A-Za-z0-9_-]{90,120}",
    "yandex-key": "AQVN[A-Za-z0-9_-]{35,38}",
}

# Shapes behind the name of their service.
NAMED: Mapping[str, Format] = {
    "adafruit": Format("adafruit", "[a-z0-9_-]{32}"),
    "adobe-id": Format("adobe", "[a-f0-9]{32}"),
    "airtable": Format("airtable", "[a-z0-9]{17}"),
    "algolia": Format("algolia", "[a-z0-9]{32}"),
    "alibaba": Format("alibaba", "[a-z0-9]{30}"),
    "asana-id": Format("asana_client_id", "[0-9]{16}"),
    "asana": Format("asana", "[a-z0-9]{32}"),
    "atlassian-old": Format("(atlassian|confluence|jira)", "[a-z0-9]{20}[a-f0-9]{4}"),
    "beamer": Format("beamer", "b_[a-z0-9=_-]{44}"),
    "bitbucket-id": Format("bitbucket", "[a-z0-9]{32}"),
    "bitbucket": Format("bitbucket", "[a-z0-9=_-]{64}"),
    "bittrex": Format("bittrex", "[a-z0-9]{32}"),
    "cisco-meraki": Format("meraki", "[0-9a-f]{40}"),
    "cloudflare": Format("cloudflare", "[a-z0-9_-]{40}"),
    "cloudflare-global": Format("cloudflare", "[a-f0-9]{37}"),
    "codecov": Format("codecov", "[a-z0-9]{32}"),
    "cohere": Format("cohere", "[a-zA-Z0-9]{40}"),
    "coinbase": Format("coinbase", "[a-z0-9_-]{64}"),
    "confluent": Format("confluent", "[a-z0-9]{16}"),
    "confluent-secret": Format("confluent", "[a-z0-9]{64}"),
    "contentful": Format("contentful", "[a-z0-9=_-]{43}"),
    "datadog": Format("datadog", "[a-z0-9]{40}"),
    "discord": Format("discord", "[a-f0-9]{64}"),
    "discord-id": Format("discord_client_id", "[0-9]{18}"),
    "discord-secret": Format("discord", "[a-z0-9=_-]{32}"),
    "droneci": Format("droneci", "[a-z0-9]{32}"),
    "dropbox": Format("dropbox", "[a-z0-9]{15}"),
    "dropbox-long": Format("dropbox", "[a-z0-9]{11}AAAAAAAAAA[a-z0-9_=-]{43}"),
    "dropbox-short": Format("dropbox", "sl.[a-z0-9=_-]{135}"),
    "etsy": Format("etsy", "[a-z0-9]{24}"),
    "facebook": Format("facebook", "[0-9]{15,16}\\|[0-9a-z_-]{27,40}"),
    "facebook-secret": Format("facebook", "[a-f0-9]{32}"),
    "fastly": Format("fastly", "[a-z0-9=_-]{32}"),
    "finicity": Format("finicity", "[a-f0-9]{32}"),
    "finicity-secret": Format("finicity", "[a-z0-9]{20}"),
    "finnhub": Format("finnhub", "[a-z0-9]{20}"),
    "flickr": Format("flickr", "[a-z0-9]{32}"),
    "freshbooks": Format("freshbooks", "[a-z0-9]{64}"),
    "gitter": Format("gitter", "[a-z0-9_-]{40}"),
    "gocardless": Format("gocardless", "live_[a-z0-9_=-]{40}"),
    "heroku-old": Format("heroku", _UUID),
    "hubspot": Format("hubspot", _UUID),
    "intercom": Format("intercom", "[a-z0-9=_-]{60}"),
    "jfrog": Format("(jfrog|artifactory|bintray|xray)", "[a-z0-9]{73}"),
    "jfrog-identity": Format("(jfrog|artifactory|bintray|xray)", "[a-z0-9]{64}"),
    "kraken": Format("kraken", "[a-z0-9/=_+-]{80,90}"),
    "kucoin": Format("kucoin", "[a-f0-9]{24}"),
    "kucoin-secret": Format("kucoin", _UUID),
    "launchdarkly": Format("launchdarkly", "[a-z0-9=_-]{40}"),
    "linear-secret": Format("linear", "[a-f0-9]{32}"),
    "linkedin-id": Format("(linkedin|linked_in)", "[a-z0-9]{14}"),
    "linkedin": Format("(linkedin|linked-in)", "[a-z0-9]{16}"),
    "lob": Format("lob", "(live|test)_[a-f0-9]{35}"),
    "lob-public": Format("lob", "(live|test)_pub_[a-f0-9]{31}"),
    "looker-id": Format("looker", "[a-z0-9]{20}"),
    "looker": Format("looker", "[a-z0-9]{24}"),
    "mailchimp": Format("mailchimp", "[a-f0-9]{32}-us[0-9]{2}"),
    "mailgun": Format("mailgun", "key-[a-f0-9]{32}"),
    "mailgun-public": Format("mailgun", "pubkey-[a-f0-9]{32}"),
    "mailgun-signing": Format("mailgun", "[a-h0-9]{32}-[a-h0-9]{8}-[a-h0-9]{8}"),
    "mapbox": Format("mapbox", "pk.[a-z0-9]{60}.[a-z0-9]{22}"),
    "mattermost": Format("mattermost", "[a-z0-9]{26}"),
    "messagebird": Format("(messagebird|message_bird)", "[a-z0-9]{25}"),
    "messagebird-id": Format("messagebird", _UUID),
    "netlify": Format("netlify", "[a-z0-9=_-]{40,46}"),
    "newrelic-id": Format("(newrelic|new_relic)", "[a-z0-9]{64}"),
    "nytimes": Format("nytimes", "[a-z0-9=_-]{32}"),
    "okta": Format("okta", "00[A-Za-z0-9_=-]{40}"),
    "plaid-id": Format("plaid", "[a-z0-9]{24}"),
    "plaid-secret": Format("plaid", "[a-z0-9]{30}"),
    "privateai": Format("private_ai", "[a-z0-9]{32}"),
    "rapidapi": Format("rapidapi", "[a-z0-9_-]{50}"),
    "sendbird-id": Format("sendbird", _UUID),
    "sendbird": Format("sendbird", "[a-f0-9]{40}"),
    "sentry": Format("sentry", "[a-f0-9]{64}"),
    "sidekiq": Format("BUNDLE_ENTERPRISE__CONTRIBSYS__COM", "[a-f0-9]{8}:[a-f0-9]{8}"),
    "snyk": Format("snyk", _UUID),
    "sonar": Format("sonar", "(squ_|sqp_|sqa_)[a-z0-9=_-]{40}"),
    "sourcegraph-hex": Format("sourcegraph", "[a-f0-9]{40}"),
    "squarespace": Format("squarespace", _UUID),
    "sumologic-id": Format("sumo", "su[a-zA-Z0-9]{12}"),
    "sumologic": Format("sumo", "[a-z0-9]{64}"),
    "telegram": Format("telegram", "[0-9]{5,16}:A[a-z0-9_-]{34}"),
    "travis": Format("travis", "[a-z0-9]{22}"),
    "twitch": Format("twitch", "[a-z0-9]{30}"),
    "twitter-access-secret": Format("twitter", "[a-z0-9]{45}"),
    "twitter-access": Format("twitter", "[0-9]{15,25}-[a-zA-Z0-9]{20,40}"),
    "twitter": Format("twitter", "[a-z0-9]{25}"),
    "twitter-secret": Format("twitter", "[a-z0-9]{50}"),
    "twitter-bearer": Format("twitter", "A{22}[a-zA-Z0-9%]{80,100}"),
    "vault-old": Format("vault", "s.[a-zA-Z0-9]{24}"),
    "yandex": Format("yandex", "t1.[A-Z0-9a-z_-]{20,60}.[A-Z0-9a-z_-]{86}"),
    "yandex-aws": Format("yandex", "YC[a-zA-Z0-9_-]{38}"),
    "zendesk": Format("zendesk", "[a-z0-9]{40}"),
    "onfido": Format("onfido", "api_live.[a-zA-Z0-9_-]{11}.[a-zA-Z0-9_-]{32}"),
}

# How a value is written behind the name of its service, and how one that stands for itself.
NAMED_PLACES = (
    '{}_api_key = "{}"', "{}_token: {}", 'export {}_KEY="{}"', '{{"{}_secret": "{}", "n": 1}}',
    '"{}": "{}",', "const {}Token = '{}';", "{} token is {} for now", "{}.key={}",
    'config("{}_api_key", "{}")', "the {} key: `{}`", "{}_client_secret => '{}'",
)  # fmt: skip
PLACES = (
    "{}", 'TOKEN="{}"', "use {} for it", '{{"content": "{}", "n": 1}}', "curl -H 'x-key: {}' h",
    "value: {}\n", "see `{}`.", "print('{}')", "a\t{}\tb", "https://h.test/?t={}", "- {}\n- b",
)  # fmt: skip

# Formats whose surroundings are part of them.
WRITTEN: Mapping[str, tuple[str, str]] = {
    "curl-bearer": ('curl -H "Authorization: Bearer {}" https://h.test', "[A-Za-z0-9_.-]{20,60}"),
    "curl-basic": ("curl h.test --header 'Authorization: Basic {}'", "[A-Za-z0-9+/]{24,40}"),
    "curl-token": ('curl -X GET -H "X-Auth-Token: {}" https://h.test', "[A-Za-z0-9]{20,40}"),
    "curl-key": ('curl -H "Api-Key: {}" https://h.test', "[A-Za-z0-9]{20,40}"),
    "curl-user": ("curl -u bob:{} https://h.test", "[A-Za-z0-9_.-]{8,20}"),
    "curl-user-quoted": ('curl --user "bob:{}" https://h.test', "[A-Za-z0-9!#*_.-]{8,20}"),
    "freemius": ("'secret_key' => '{}',", "sk_[A-Za-z0-9!@#%^&*()_+~.-]{29}"),
    "generic": ('access_token = "{}"', "[A-Za-z0-9_.=-]{24,60}"),
    "generic-creds": ("creds: '{}'", "[a-z0-9][a-z0-9+/]{24,40}"),
    "generic-auth": ('"auth": "{}"', "[A-Za-z0-9]{24,40}"),
    "tf-password": ('administrator_login_password = "{}"', "[a-z0-9=_-]{12,20}"),
    "kubernetes": (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  db: {}\n",
        "[A-Za-z0-9+/]{24}",
    ),
    "nuget-config": ('<add key="ClearTextPassword" value="{}" />', "[A-Za-z0-9!@#%^*]{10,20}"),
    "openssl-pass": ("openssl enc -aes-256-cbc -pass pass:{} -in f", "[A-Za-z0-9]{10,20}"),
    "htpasswd": ("htpasswd -b .htpasswd bob {}", "[A-Za-z0-9]{10,20}"),
    "htpasswd-create": ("htpasswd -bc /etc/nginx/.htpasswd bob {}", "[A-Za-z0-9]{10,20}"),
    "german": ("Das Passwort lautet {}.", "[A-Za-z0-9]{10,20}"),
    "german-short": ("Passwort: {}", "[A-Za-z0-9]{10,20}"),
    "french": ("Le mot de passe est {}", "[A-Za-z0-9]{10,20}"),
    "django": ("SECRET_KEY = '{}'", "django-insecure-[a-z0-9!@#$%^&*(_=+)-]{50}"),
    "django-env": ("SECRET_KEY={}\nDEBUG=1", "[a-z0-9!@#$%^*(_=+)-]{49}[a-z0-9]"),
    "vault-bare": ('VAULT_TOKEN="{}"', "s.[a-zA-Z0-9]{24}"),
    "gitlab-session": ("use _gitlab_session={} there", "[0-9a-z]{32}"),
    "sidekiq-url": ("source https://{}@gems.contribsys.com/", "[a-f0-9]{8}:[a-f0-9]{8}"),
    "teams": (
        "https://x.webhook.office.com/webhookb2/{}",
        f"{_UUID}@{_UUID}/IncomingWebhook/[a-z0-9]{{32}}/{_UUID}",
    ),
    "slack-hook": (
        "post to https://hooks.slack.com/services/{} please",
        "T[A-Z0-9]{9}/B[A-Z0-9]{9}/[A-Za-z0-9]{24}",
    ),
}  # fmt: skip


def pem(random: Random) -> str:
    """Make a private key in its frame."""
    kind = random.choice(["RSA ", "EC ", "OPENSSH ", "DSA ", "ENCRYPTED ", ""])
    body = "\n".join(draw(random, "[A-Za-z0-9+/]{64}") for _ in range(random.randint(3, 20)))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def base64_jwt(random: Random) -> str:
    """Make a web token that was encoded once more."""
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode()
    token = (
        f"{head.rstrip('=')}.{draw(random, 'eyJ[A-Za-z0-9]{40}')}.{draw(random, '[A-Za-z0-9]{43}')}"
    )
    return base64.b64encode(token.encode()).decode().rstrip("=")


def planted(random: Random, rounds: int) -> Iterator[tuple[str, str, str]]:
    """Plant values of every format: give its name, the value, and a text with it."""
    for _ in range(rounds):
        for name, shape in ALONE.items():
            value = draw(random, shape)
            yield name, value, random.choice(PLACES).format(value)
        for name, (service, shape) in NAMED.items():
            value, called = draw(random, shape), draw(random, service)
            called = random.choice([called, called.upper(), called.capitalize()])
            place = (
                NAMED_PLACES[0] if called.lower().endswith("_id") else random.choice(NAMED_PLACES)
            )
            place = place.replace("_api_key", "") if called.lower().endswith("_id") else place
            yield name, value, place.format(called, value)
        for name, (place, shape) in WRITTEN.items():
            value = draw(random, shape)
            yield name, value, place.format(value)
        for name, make in (("pem", pem), ("base64-jwt", base64_jwt)):
            value = make(random)
            yield name, value, random.choice(PLACES[:3]).format(value)


def is_gone(value: str, masked: str) -> bool:
    """Tell whether nothing is left by which a value could be told: no ten letters in a row."""
    lines = [line for line in value.split("\n") if not line.startswith("-----")]
    pieces = (line[at : at + 10] for line in lines for at in range(4, max(5, len(line) - 9)))
    return not any(piece in masked for piece in pieces if len(set(piece)) > _FEW)
