#!/usr/bin/env bash
# Trains the digits with three batch sizes, and compares the results.
set -euo pipefail
for size in 32 64 128; do
    trainshed run manifests/trainingrun.yaml --set metadata.name="batch-$size" --set spec.batchSize="$size" --set spec.epochs=2
done
trainshed compare batch-32 batch-64 batch-128
