# KubeRay itself tells Ray nothing: so told, Ray Train writes a checkpoint and plans around this node. Once
# it is idle its raylet ends and the wait with it. Where the head is gone that knew this node, there is
# nothing to wait for. Who has no watch does not know which head that was, and takes the one there is.
is_there() {
  local try
  # Where no new connection can be made for some seconds the raylet's own is as good.
  is_connected && return
  for try in 1 2 3; do
    BASH_ENV='' timeout 2 bash -c "</dev/tcp/$head/$HEAD_PORT" 2>/dev/null && return
    sleep 0.5
  done
  return 1
}

read -r head peer 2>/dev/null </tmp/trainshed-head || head=$FQ_RAY_IP peer=''
if is_there; then
  [[ $head == *:* ]] && address="[$head]" || address=$head
  timeout "$DRAIN_SECONDS" ray drain-node --address "$address:$HEAD_PORT" --reason DRAIN_NODE_REASON_PREEMPTION \
    --reason-message "the Pod is being deleted" --deadline-remaining-seconds "$DRAIN_SECONDS"
  left=$((DRAIN_SECONDS - SECONDS))
  while ((left-- > 0)) && [[ $(raylets) ]] && is_there; do sleep 1; done
fi
for raylet in $(raylets); do kill -KILL "$raylet" 2>/dev/null; done
