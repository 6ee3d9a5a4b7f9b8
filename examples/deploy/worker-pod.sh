#!/usr/bin/env bash
# Makes and ends worker pods for a control role with --provision (docs/how-to/kubernetes.md): each is
# a pod such as those of a StatefulSet of the chart, of a name of its own, and its state goes with it.
#
#   worker-pod.sh create STATEFULSET NAME
#   worker-pod.sh delete STATEFULSET NAME
#
# Needs kubectl, with the right to read the StatefulSet and to create, read and delete pods, and jq.
set -euo pipefail
verb=$1 like=$2 name=$3
case $verb in
create)
  kubectl get statefulset "$like" -o json | jq --arg name "$name" '{
    apiVersion: "v1", kind: "Pod",
    metadata: {name: $name, labels: .spec.template.metadata.labels},
    spec: (.spec.template.spec + {
      volumes: (.spec.template.spec.volumes + [.spec.volumeClaimTemplates[] |
        {name: .metadata.name, emptyDir: {sizeLimit: .spec.resources.requests.storage}}])
    })
  }' | kubectl create -f - >/dev/null
  ;;
delete) # waits until the worker has ended: services have moved before
  kubectl delete pod "$name" --ignore-not-found >/dev/null
  ;;
*)
  echo "worker-pod.sh: write create or delete, not $verb" >&2
  exit 1
  ;;
esac
