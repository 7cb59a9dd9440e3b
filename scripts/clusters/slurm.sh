#!/usr/bin/env bash
# A Ray cluster on the nodes of a Slurm allocation, and one command of speedrun on it:
#   sbatch scripts/clusters/slurm.sh run adamw --rung 300m --hardware h100x16
# Submit it from the checkout, on a file system that every node sees. See docs/clusters.md for what was exercised.
#SBATCH --job-name=speedrun
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
set -euo pipefail

bin=$PWD/.venv/bin
port=6379
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}

# --block keeps each step alive with its Ray, so that both end with the allocation.
srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" "$bin/ray" start --head --port="$port" --block &
sleep 20
for node in "${nodes[@]:1}"; do
  srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" "$bin/ray" start --address="$head:$port" --block &
done
sleep 20

srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" "$bin/speedrun" "$@" --engine ray --ray-address "$head:$port"
