#!/usr/bin/env bash
# Usage: prove.sh [OPTIONS OF PYTEST]
# Runs the tests of the recipes (tests/deploy) with the tools that tools.sh installs, and writes PROOF.md: date, versions, the
# result of each test, and by name what was not run.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
here=$root/scripts/deploy
venv=$build_dir/venv-deploy/bin
report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
"$venv_python" -m pytest -p no:cacheprovider -q -rA --tb=no "$@" "$root/tests/deploy" >"$report" 2>&1 || status=$?
first() { "$@" 2>&1 | head -n 1 || true; }
version() { # name, command...
    local name=$1
    shift
    if command -v "$1" >/dev/null; then echo "| $name | $(first "$@" | tr -d '\r' | tr '|' ' ') |"; else echo "| $name | not installed |"; fi
}
{
    echo "# Proof of the recipes"
    echo
    echo "Written by \`scripts/deploy/prove.sh\` on $(date -u +'%Y-%m-%d %H:%M UTC'), commit $(git -C "$root" rev-parse --short HEAD)."
    echo
    echo "| tool | version |"
    echo "|---|---|"
    echo "| AWS CLI | $("$venv/aws" --version 2>/dev/null | cut -d' ' -f1) |"
    echo "| moto | $("$venv/pip" show moto 2>/dev/null | sed -n 's/^Version: //p') |"
    version cfn-lint "$venv/cfn-lint" --version
    version helm "$venv/helm" version --short
    version kubernetes-validate "$venv/kubernetes-validate" --version
    echo "| python-hcl2 | $("$venv/pip" show python-hcl2 2>/dev/null | sed -n 's/^Version: //p') |"
    echo "| hclfmt | $([ -x "$venv/hclfmt" ] && go version -m "$venv/hclfmt" | awk '$1 == "mod" { print $3 }' || echo 'not installed') |"
    version cloud-init cloud-init --version
    version OpenSSH ssh -V
    version Slurm slurmctld -V
    for tool in tofu tflint checkov nomad podman-compose; do version $tool $tool --version; done
    echo
    [ $# = 0 ] || echo "Only the tests that \`$*\` selects; the others of \`tests/deploy\` were not run for this page."
    [ $# = 0 ] || echo
    echo "| test | result |"
    echo "|---|---|"
    sed -n -E 's/^(PASSED|FAILED|ERROR) [^ ]*tests\/deploy\/([^ ]*).*/| `\2` | \1 |/p; s/^SKIPPED \[[0-9]+\] [^ ]*tests\/deploy\/([^ ]*): (.*)/| `\1` | not run: \2 |/p' "$report" | sort
    echo
    sed -n 's/^from nothing to/From nothing to/p' "$report"
    echo
    echo "Not run: AWS, Google Cloud, Azure; a Kubernetes cluster or API server; Nomad, Consul; compose containers; a"
    echo "boot of the cloud-init user data; OpenTofu and its providers, tflint, checkov; systemd units of \`tfe-up\`."
} >"$here/PROOF.md"
tail -n 1 "$report"
exit $status
