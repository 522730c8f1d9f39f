# KubeRay itself tells Ray nothing: so told, Ray Train writes a checkpoint and plans around this node. Once
# it is idle Ray ends and the wait with it. Where the head is gone that knew this node, there is nothing
# to wait for.
is_there() { timeout 2 bash -c "</dev/tcp/$1/$HEAD_PORT" 2>/dev/null; }

if read -r head 2>/dev/null </tmp/trainshed-head && is_there "$head" &&
  timeout 15 ray drain-node --reason DRAIN_NODE_REASON_PREEMPTION \
    --reason-message "the Pod is being deleted" --deadline-remaining-seconds "$DRAIN_SECONDS"; then
  while ((SECONDS < DRAIN_SECONDS)) && is_there "$head"; do sleep 1; done
fi
for comm in /proc/[0-9]*/comm; do
  read -r name 2>/dev/null <"$comm" && [[ $name == raylet ]] && kill -KILL "${comm//[^0-9]/}" 2>/dev/null
done
