"""What hardware this machine has."""

from speedrun.hardware import HardwareSpec, parse_hardware


def detect_hardware() -> HardwareSpec:
    """What jax finds on this machine.

    Raises:
        SpeedrunError: for an accelerator that is not in the table, saying how to declare it.
    """
    import jax

    from speedrun.accelerators import accelerator_from_device_kind

    devices = jax.devices()
    if devices[0].platform == "cpu":
        return parse_hardware("cpu")[0]
    return HardwareSpec(accelerator_from_device_kind(devices[0].device_kind), len(devices), jax.process_count())
