# Ends this worker where its head is lost. A head without fault tolerance comes back as another cluster,
# which no raylet of the old one can join; Ray itself finds that out up to a minute late, because gRPC looks
# for the name's new address every 30 s at most and what is still connecting does not count as lost.
#
# Lost is a head whose port is closed at the address that this worker joined, or that nobody has answered
# at for 10 s, while no process here is connected to it. DNS is asked at the beginning alone, and a head
# that is only slow keeps its connections. One connection is held: it ends when the head's process does.
export LC_ALL=C
head_file=/tmp/trainshed-head head='' alone_since=''

reach() { reason=$(timeout 2 bash -c "</dev/tcp/$1/$HEAD_PORT" 2>&1) && exec 3<>"/dev/tcp/$1/$HEAD_PORT"; }

is_connected() {
  local port lines
  printf -v port '%04X' "$HEAD_PORT"
  mapfile -t lines < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  # The other end's port, then 01 for established.
  [[ ${lines[*]} =~ :$port\ 01\  ]]
}

end_raylet() {
  local comm name
  for comm in /proc/[0-9]*/comm; do
    read -r name 2>/dev/null <"$comm" && [[ $name == raylet ]] && kill -KILL "${comm//[^0-9]/}" 2>/dev/null
  done
}

while sleep 0.2; do
  at=$head
  [[ $at ]] || read -r at _ < <(getent ahosts "$FQ_RAY_IP")
  if [[ $at ]] && reach "$at"; then
    head=$at alone_since=''
    echo "$head" >"$head_file"
    # The head closes what says nothing after two minutes; a head that ends closes it at once.
    while read -r -d '' -t 30 -u 3 _; do :; done
    exec 3>&-
    continue
  fi
  if [[ $head ]] && ! is_connected; then
    alone_since=${alone_since:-$SECONDS}
    if [[ $reason == *refused* ]] || ((SECONDS - alone_since >= 10)); then
      said="The head at $head is lost: this worker ends, for it cannot join another one."
      echo "$said"
      [[ -e /dev/termination-log ]] && echo "$said" >/dev/termination-log
      end_raylet
    fi
  else
    alone_since=''
  fi
  sleep 1
done
