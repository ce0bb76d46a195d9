#!/bin/sh
# Some tests use programs that pip cannot bring: strace (crashes at an exact system call), bubblewrap (an agent in a
# sandbox), Node with npm (compares with the real AI SDK), zsh and fish (their hooks), groff (manual pages), openssl (a
# certificate), Chromium (our extension and the page). Root on Debian gets what is missing; elsewhere those tests skip, or fail when CI=true.
set -eu

missing=""
command -v strace >/dev/null || missing="$missing strace"
command -v bwrap >/dev/null || missing="$missing bubblewrap"
command -v node >/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
command -v zsh >/dev/null || missing="$missing zsh"
command -v fish >/dev/null || missing="$missing fish"
command -v groff >/dev/null || missing="$missing groff-base"
command -v openssl >/dev/null || missing="$missing openssl"
command -v chromium >/dev/null || missing="$missing chromium"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ] && [ -e /etc/debian_version ]; then
    echo "test tools: installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086  # a list of words
    if apt-get -qq update >/dev/null && apt-get -qq install -y --no-install-recommends $missing >/dev/null; then
        exit 0
    fi
    echo "test tools: apt-get could not install$missing" >&2
fi
echo "test tools: not here:$missing; the tests that need them are skipped (and fail when CI=true)" >&2
