#!/bin/bash
#SBATCH --account=acme
#SBATCH --comment=windlass.dev/tenant=acme,windlass.dev/project=nlp,windlass.dev/env=prod,windlass.dev/component=model-service,windlass.dev/type=model-service,windlass.dev/type-version=1.0.0,windlass.dev/tier=standard,windlass.dev/profile=h100-80g
#SBATCH --cpus-per-task=24
#SBATCH --export=NIL
#SBATCH --gres=gpu:h100-80g:2
#SBATCH --job-name=nlp.prod.model-service
#SBATCH --mem=256G
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --partition=h100-80g
#SBATCH --qos=standard
#SBATCH --requeue
set -- "$(command -v srun)" '--export=ALL' '--kill-on-bad-exit=0' '--cpus-per-task=24' \
  /bin/sh -c 'export WINDLASS_WORKER=${SLURM_ARRAY_TASK_ID:-$SLURM_PROCID} WINDLASS_NODE=$SLURMD_NODENAME; exec "$@"' sh \
  'vllm' 'serve' 'acme/chat-8b' '--revision=v2' '--host=0.0.0.0' '--port=8000' '--tensor-parallel-size=2' '--max-num-seqs=32' '--max-model-len=8192' '--gpu-memory-utilization=0.90'
export WINDLASS_COMPONENT='nlp/prod/model-service'
export WINDLASS_IMAGE='ghcr.io/acme/work:v3'
export PORT='8000'
exec "$@"
