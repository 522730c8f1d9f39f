# Ends this worker where its head is lost. A head without fault tolerance comes back as another cluster,
# which no raylet of the old one can join; Ray itself finds that out up to a minute late, because gRPC looks
# for the name's new address every 30 s at most and what is still connecting does not count as lost.
#
# Lost is a head whose port is closed at the address that this worker joined, three times in a row, or where
# nobody has answered for ten looks, or once while the name says another address; in all cases while no raylet
# here has a connection to it that is acknowledged. DNS that knows nothing says nothing, and a head that is only
# slow keeps its connections. One connection is held: it ends when the head's process does.
export LC_ALL=C
head_file=/tmp/trainshed-head head='' peer='' refusals=0 looks=0

reach() { reason=$(BASH_ENV= timeout 2 bash -c "</dev/tcp/$1/$HEAD_PORT" 2>&1) && exec 3<>"/dev/tcp/$1/$HEAD_PORT"; }

# The address and port that descriptor 3 is connected to, as the kernel writes them. A connection over IPv6 to
# an address of IPv4 ends with the same digits.
peer_of_3() {
  local socket remote inode
  socket=$(readlink /proc/self/fd/3)
  while read -r _ _ remote _ _ _ _ _ _ inode _; do
    [[ $socket == "socket:[$inode]" ]] && echo "$remote"
  done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
}

# Whether the name says that the head is somewhere else now.
has_moved() {
  local found
  found=$(timeout 2 getent ahosts "$FQ_RAY_IP")
  [[ $found && $'\n'$found != *$'\n'"$head "* ]]
}

end_raylet() {
  local raylet ended=1
  for raylet in $(raylets); do kill -KILL "$raylet" 2>/dev/null && ended=0; done
  return "$ended"
}

while sleep 0.2; do
  at=$head
  [[ $at ]] || read -r at _ < <(getent ahosts "$FQ_RAY_IP")
  if [[ $at ]] && reach "$at"; then
    # The file is written once: /tmp may be full by the next time.
    [[ $at == "$head" ]] || { peer=$(peer_of_3); echo "$at $peer" >"$head_file"; }
    head=$at refusals=0 looks=0
    # The head closes what says nothing after two minutes; a head that ends closes it at once.
    while read -r -d '' -t 30 -u 3 _; do :; done
    exec 3>&-
    continue
  fi
  if [[ $head ]] && ! is_connected; then
    # Counted in looks, a second apart: the clock of a shell may be set.
    [[ $reason == *refused* ]] && ((refusals++))
    if has_moved || ((refusals >= 3 || ++looks >= 10)); then
      if end_raylet; then
        said="The head at $head is lost: this worker ends, for it cannot join another one."
        echo "$said"
        [[ -e /dev/termination-log ]] && echo "$said" >/dev/termination-log
      else
        head='' peer='' # nothing has joined it yet: what starts here joins the next one
        rm -f "$head_file"
      fi
    fi
  else
    refusals=0 looks=0
  fi
  sleep 1
done
