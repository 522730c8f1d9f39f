# Prints the processes of this container's raylets. Where a Pod sees its node's processes those of
# other containers are there, too: they have another mount namespace.
raylets() {
  local process name
  for process in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$process/comm" && [[ $name == raylet && $process/ns/mnt -ef /proc/self/ns/mnt ]] &&
      echo "${process#/proc/}"
  done
}

# Whether a raylet of this container has a connection to its head that is acknowledged. One to the next head
# under the same name is none: it comes within seconds, and a raylet clings to it for up to a minute.
is_connected() {
  local raylet sockets='' remote state retransmits inode
  # Who has no watch does not know its head, and takes any.
  [[ $peer ]] || printf -v peer ':%04X' "$HEAD_PORT"
  # Who cannot look does not say that nobody is connected.
  [[ -r /proc/net/tcp ]] || return 0
  for raylet in $(raylets); do
    sockets+=$(ls -l "/proc/$raylet/fd" 2>/dev/null)
    (($? < 2)) || return 0 # 1 is a descriptor that was closed in between
  done
  # A connection to a node that went dark stays established; what was sent there is sent again after 0.2 s,
  # 0.4 s and so on (proc(5): retrnsmt), 8 times in 51 s. Ray itself gives a node up after less.
  while read -r _ _ remote state _ _ retransmits _ _ inode _; do
    [[ $remote == *"$peer" && $state == 01 && $sockets == *"socket:[$inode]"* ]] &&
      ((16#$retransmits < 8)) && return 0
  done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  return 1
}
