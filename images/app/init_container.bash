# Read by every bash that runs a command (BASH_ENV), and of use in one place: KubeRay gives each worker's
# Pod an init container that asks `ray health-check` until the head answers. That command imports Ray, two
# seconds of a core, of which the container has a fifth: ten seconds and more before a worker begins to
# start. Here a connection to the head's port is the answer: it opens once the head can be joined.
# The Ray container has KUBERAY_GEN_RAY_START_CMD (KubeRay 1.7.0, common/pod.go); there nothing changes.
if [[ -n "${FQ_RAY_IP:-}" && -z "${KUBERAY_GEN_RAY_START_CMD:-}" ]]; then
    ray() {
        if [[ "$*" != "health-check --address "* ]]; then
            command ray "$@"
            return
        fi
        local host=${3%:*} port=${3##*:} tries
        # KubeRay's loop rests five seconds between questions: this one looks for as long itself.
        for ((tries = 0; tries < 25; tries++)); do
            # A shell of its own: the connection ends with it, and timeout cannot run a function.
            timeout 2 bash -c "exec 3<>'/dev/tcp/$host/$port'" 2>/dev/null && return
            sleep 0.2
        done
        return 1
    }
fi
