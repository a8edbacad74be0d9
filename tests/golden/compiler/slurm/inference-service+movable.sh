#!/bin/bash
#SBATCH --account=acme
#SBATCH --comment=windlass.dev/tenant=acme,windlass.dev/project=nlp,windlass.dev/env=prod,windlass.dev/component=inference-service,windlass.dev/type=inference-service,windlass.dev/type-version=1.0.0,windlass.dev/tier=standard,windlass.dev/profile=h100-80g
#SBATCH --cpus-per-task=12
#SBATCH --export=NIL
#SBATCH --gres=gpu:h100-80g:1
#SBATCH --job-name=nlp.prod.inference-service
#SBATCH --mem=128G
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=h100-80g
#SBATCH --qos=standard
#SBATCH --requeue
set -- "$(command -v srun)" '--export=ALL' '--kill-on-bad-exit=0' '--cpus-per-task=12' \
  /bin/sh -c 'export WINDLASS_WORKER=${SLURM_ARRAY_TASK_ID:-$SLURM_PROCID} WINDLASS_NODE=$SLURMD_NODENAME; exec "$@"' sh \
  'python' '-u' 'it'\''s main.py'
export WINDLASS_COMPONENT='nlp/prod/inference-service'
export WINDLASS_IMAGE='ghcr.io/acme/work:v3'
export BATCH_SIZE='16'
export HOST='0.0.0.0'
export PORT='8080'
exec "$@"
