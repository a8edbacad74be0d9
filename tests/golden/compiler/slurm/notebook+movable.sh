#!/bin/bash
#SBATCH --account=acme
#SBATCH --comment=windlass.dev/tenant=acme,windlass.dev/project=nlp,windlass.dev/env=prod,windlass.dev/component=notebook,windlass.dev/type=notebook,windlass.dev/type-version=1.0.0,windlass.dev/tier=standard,windlass.dev/profile=h100-80g
#SBATCH --cpus-per-task=12
#SBATCH --export=NIL
#SBATCH --gres=gpu:h100-80g:1
#SBATCH --job-name=nlp.prod.notebook
#SBATCH --mem=128G
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --partition=h100-80g
#SBATCH --qos=standard
#SBATCH --requeue
#SBATCH --time=0-08:00:00
set -- "$(command -v srun)" '--export=ALL' '--kill-on-bad-exit=0' '--cpus-per-task=12' \
  /bin/sh -c 'export WINDLASS_WORKER=${SLURM_ARRAY_TASK_ID:-$SLURM_PROCID} WINDLASS_NODE=$SLURMD_NODENAME; exec "$@"' sh \
  'jupyter' 'lab' '--no-browser' '--ServerApp.ip=0.0.0.0' '--ServerApp.port=8888' '--ServerApp.shutdown_no_activity_timeout=1800' '--MappingKernelManager.cull_idle_timeout=1800' '--MappingKernelManager.cull_interval=60' '--MappingKernelManager.cull_connected=True'
export WINDLASS_COMPONENT='nlp/prod/notebook'
export WINDLASS_IMAGE='ghcr.io/acme/work:v3'
exec "$@"
