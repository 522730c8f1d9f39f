# Prints the processes of this container's raylets. Where a Pod sees its node's processes those of
# other containers are there, too: they have another mount namespace.
raylets() {
  local process name
  for process in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$process/comm" && [[ $name == raylet && $process/ns/mnt -ef /proc/self/ns/mnt ]] &&
      echo "${process#/proc/}"
  done
}
