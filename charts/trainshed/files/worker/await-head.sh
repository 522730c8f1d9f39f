# Waits until the head's port is open. KubeRay's own wait starts a Python with a fifth of a core for each look.
echo "waiting for the head at $FQ_RAY_IP:$HEAD_PORT"
until timeout 2 bash -c '</dev/tcp/"$FQ_RAY_IP"/"$HEAD_PORT"' 2>/dev/null; do sleep 0.5; done
