#!/usr/bin/env bash
# From a clone to a trained model on Kubernetes in Docker: makes a kind cluster, pulls or else builds the
# images, installs the chart with preset=laptop, trains manifests/trainingrun.yaml and fetches its report.
# Run it by `make kind`. It can run again after a failure and skips what exists. KIND_CLUSTER names the
# cluster; `kind delete cluster --name trainshed` removes it with all its runs.
set -euo pipefail
cd "$(dirname "$0")/.."
cluster=${KIND_CLUSTER:-trainshed}
run=manifests/trainingrun.yaml
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
app=ghcr.io/trainshed/app:$version-cpu
controller=ghcr.io/trainshed/controller:$version
folder=.trainshed/kind

for program in docker kind kubectl helm; do
    if ! command -v "$program" >/dev/null; then
        echo "make kind: got no program $program; expected docker, kind, kubectl and helm. Install it" >&2
        exit 1
    fi
done

mkdir -p "$folder"
export KUBECONFIG=$PWD/$folder/kubeconfig  # yours stays as it is
if ! kind get clusters | grep --quiet --line-regexp "$cluster"; then
    kind create cluster --name "$cluster" --wait 5m
fi
kind export kubeconfig --name "$cluster"

for image in "$app" "$controller"; do
    if docker image inspect "$image" >/dev/null 2>&1 || docker pull "$image"; then continue; fi
    echo "make kind: no registry has $image: building it" >&2
    name=$(basename "${image%%:*}")
    if [ "$image" = "$app" ]; then hack/lock-cpu.sh; fi
    docker build --file "images/$name/Dockerfile" --build-arg LOCK=cpu.txt --tag "$image" .
done
kind load docker-image --name "$cluster" "$app" "$controller"

if ! compgen -G 'charts/trainshed/charts/*.tgz' >/dev/null; then helm dependency update charts/trainshed; fi
helm upgrade --install trainshed charts/trainshed --namespace trainshed --create-namespace \
    --set preset=laptop,image.tag="$version-cpu" --wait --timeout 15m
in_cluster() { kubectl --namespace trainshed "$@"; }
in_cluster wait raycluster/trainshed --for=jsonpath='{.status.state}'=ready --timeout=15m
in_cluster wait job --selector app.kubernetes.io/component=digits --for=condition=Complete --timeout=15m
phase_of_run() { in_cluster get --filename "$run" --ignore-not-found --output jsonpath='{.status.phase}'; }
if [ "$(phase_of_run)" = Failed ]; then in_cluster delete --filename "$run"; fi
in_cluster apply --filename "$run"
in_cluster wait --filename "$run" --for=jsonpath='{.status.completionTime}' --timeout=30m
in_cluster get --filename "$run"
phase=$(phase_of_run)
echo "make kind: the run ended as $phase"
report=$(in_cluster get --filename "$run" --output jsonpath='{.status.result.report}')
if [ -n "$report" ]; then
    head=$(in_cluster get pods --selector ray.io/cluster=trainshed,ray.io/node-type=head --output name)
    in_cluster exec "$head" --container ray-head -- cat "$report" >"$folder/report.html"
    echo "make kind: its report is $folder/report.html"
fi
[ "$phase" = Succeeded ]
